-- An expression of a SELECT in each line, over the table of test_odd_statements.py.
1e5x
1e5
1e5e
1e+5x
1e-5x
1e
1e+
1ex
1.e1
1.e1x
1.e
1.
1.x
1.5x
1.5e2x
1.5.5
.5
.5x
.5e1
.5e1x
.e1
.5.5
0.5e
00012
0x
0x1
0x1g
0xG
0X1
0x12
0xabc
0x1.5
0b1
0b
0b12
0b2
0B1
x'0'
x'00'
x''
X'4A'
x'4a4'
x'zz'
b'1'
b''
b'2'
B'1'
n'abc'
N'x'
_utf8'x'
_utf8mb4'x'
_latin1'x'
_utf8mb4x'41'
_binary'x'
_utf8
_nonsense'x'
_utf8mb40x41
1b
t.1b
t.2e3
t.`1b`
t.1
t.e1
`1b`
2e3
$x
t.$x
$
$$
t.0x
`0x`
t.`0x`
@
@a
@@a
@@version
@'a'
a@b
a$
a$b
é
t.é
1é
1_
1$
1a
1x
12x
1b2
0x1x
0b1x
0xe+1
1e5.5
1e5.e1
1..5
1...5
t..a
t.a.a
.a
.t.a
..5
{d'2020-01-01'}
{ts'2020-01-01'}
{t'10:00:00'}
DATE'2020-01-01'
DATE'2020-1-1'
DATE"2020-01-01"
TIME'10:00:00'
TIMESTAMP'2020-01-01'
INTERVAL
\N
\n
NULL
null
Null
TRUE
true
FALSE
UNKNOWN
'a''b'
'a"b'
"a"
"a""b"
"a'b"
'a\'b'
'a\0b'
'a\qb'
'a\%b'
'a\_b'
'a\Zb'
'a\bb'
''
""
'a'
"x y"
'\\'
'é'
'😀'
`a`
`x y`
`a.b`
`1`
````
`nothing`
99999999999999999999
18446744073709551615
18446744073709551616
-9223372036854775808
9223372036854775808
1e308
1e309
1e-400
0.1e-5
123456789012345678901234567890.5
0000000000000000000000000000000000000000000000000000000000000000000000001
1e00000005
-0
-0.0
-0e0
+1
++1
+-1
-+1
- -1
--1
-(-1)
~1
~-1
!1
!a
NOT 1
1!=2
1<>2
1<=>NULL
1=1
1==1
a=10
a:=1
a!=10
a<>10
a<=>10
a>=10
a=>10
a=<10
a<10
a!<10
a^1
a|1
a&1
a<<1
a>>1
a||1
a&&1
a%3
a/3
a//3
a**2
a#c
a--1
a-- -1
a- -1
a->1
a->'$'
a->>'$'
a?1
?
:a
::a
a::int
a:1
[1]
a[1]
{a}
a;b
a;
;
a,,b
(a)
((a))
()
(a,b)
ROW(1,2)
a\n
a\ta
a DIV 3
a MOD 3
a div3
3DIV 1
3div2
3mod2
1and1
1AND 1
1or0
1is null
1in(1)
1between 0and 2
a like'1%'
a like 10
a regexp'1'
a rlike'1'
a sounds like b
1between 0 and 1
1xor1
a xor 1
a is not true
a isnull
a notnull
a is unknown
isnull(a)
if(a,1,2)
if (a,1,2)
count(*)
count (*)
count( * )
sum(a)
sum (a)
max(a)x
max(a) as"x"
now
now()
now ()
current_date
current_date()
curdate
curdate()
user
user()
database()
schema()
concat('a','b')
concat ('a','b')
CONCAT('a' 'b')
'a'"b"
'a'b
'a' b
'a'x'41'
'a'.b
'a' as b
a as'b'
a as"b"
a as`b`
a"b"
a'b'
a`b`
a b
a as b
a as 1
a as 1b
a as 1e5
a as $b
a as @b
a as b.c
1as b
1`b`
1'b'
1"b"
1.5'b'
1e5'b'
0x41'b'
.5'b'
1.'b'
a.b
t.a
t . a
t. a
t .a
{db}.t.a
{db} . t . a
`t`.`a`
`t`.a
t.`a`
t.a`b`
t.a b
"t".a
t."a"
't'.a
t.*
*
t.*, a
*, a
a, *
distinct a
distinct(a)
distinct a,b
all a
DISTINCTROW a
high_priority a
sql_no_cache a
sql_calc_found_rows a
straight_join a
/**/a
a/**/
a/* x */b
a/*b*/
1/**/1
a/* ' */
a/*!b*/
a/*!,b*/
a/*!80000 ,b*/
a/*!99999 ,b*/
a/*!080000,b*/
a/*M! ,b*/
a/*M!100000 ,b*/
a/*+ x */
/*+ MAX_EXECUTION_TIME(1000) */a
/*+ nonsense */ a
/*! a */
/*!1*/
1/*!5*/
1/*!50000+1*/
a/*
a/*/
a/*/*/
a--x
a-- x
a --x
a -- x
a--	x
a# x
a#
cast(a as char)
cast(a as signed)
cast(a as int)
cast(a as text)
cast(a as real)
cast(a as float)
cast(a as year)
cast(a as decimal)
cast (a as char)
convert(a,char)
convert(a using utf8mb4)
binary a
binary'a'
a collate utf8mb4_bin
b collate utf8mb4_bin
'a'collate utf8mb4_bin
exists(select 1)
(select 1)
(select a)
a in (1)
a in ()
a in(10,20)
a in (select 10)
a not in (1)
not a in (1)
a between 1 and 20
a not between 1 and 20
case a when 10 then 1 end
case when a then 1 else 2 end
case a end
a is null
a is not null
values(a)
default(a)
1 2
a 1
a 1b
a 2e3
a $x
1 $x
1$x
a$x
5$
5$a
0$
e1
1.e1e
1.e1.a
1e1a
1E1A
1E5
1E
1e1e1
1.1e1e1
0e0
0e
0ex
0.e0
0.0x
0.x
0.0.0
000x
00x1
0xx
0x0x
0b0b
0x'
0'1'
1''
x
x'1
x '41'
X '41'
b '1'
n 'a'
n'a'b
n"a"
x"41"
b"1"
x`b`
_utf8mb4 'a'
_utf8mb4"a"
_utf8mb4 x'41'
_utf8mb4 0x41
_utf8mb4 b'1'
_utf8mb4`a`
utf8mb4'a'
_UTF8MB4'a'
a BETWEEN 0 7
a NOT IS TRUE
a NOT NULL
a isnull
a ! BETWEEN 0 AND 7
a row
a AS row
a AS `row`
a * NOT b
(a
CASE WHEN a = 1 2 END
AS a
GROUP_CONCAT(ORDER BY a)
GROUP_CONCAT(a ORDER BY , a)
GROUP_CONCAT(a SEPARATOR )
a + INTERVAL 3
DATE_SUB('2024-01-01', INTERVAL 3)
b COLLATE utf8mb4_nothing
b COLLATE utf8mb4_bin
UPPER(ALL b)
LEFT(b, ALL 2)
