"""Characters that MySQL 9.7 reads differently from Python's codecs, or for which Python has no codec.
Not here: codecs (`exact.py`), tables for kernels (`changes/charset.py`). Rewritten by
`python -m tests.changes.record_charsets`.

Entries are `PLACE-CODE*COUNT`; all but the count are hexadecimal. Consecutive positions have consecutive code points;
`x` means that they have none.
"""

from __future__ import annotations

EXCEPTIONS = {
    "armscii8": """
        0-0*161 a1-2741*1 a2-a7*1 a3-589*1 a4-29*1 a5-28*1 a6-bb*1 a7-ab*1 a8-2014*1 a9-2e*1 aa-55d*1 ab-2c*2 ad-55f*1
        ae-2026*1 af-55c*1 b0-55b*1 b1-55e*1 b2-531*1 b3-561*1 b4-532*1 b5-562*1 b6-533*1 b7-563*1 b8-534*1 b9-564*1
        ba-535*1 bb-565*1 bc-536*1 bd-566*1 be-537*1 bf-567*1 c0-538*1 c1-568*1 c2-539*1 c3-569*1 c4-53a*1 c5-56a*1
        c6-53b*1 c7-56b*1 c8-53c*1 c9-56c*1 ca-53d*1 cb-56d*1 cc-53e*1 cd-56e*1 ce-53f*1 cf-56f*1 d0-540*1 d1-570*1
        d2-541*1 d3-571*1 d4-542*1 d5-572*1 d6-543*1 d7-573*1 d8-544*1 d9-574*1 da-545*1 db-575*1 dc-546*1 dd-576*1
        de-547*1 df-577*1 e0-548*1 e1-578*1 e2-549*1 e3-579*1 e4-54a*1 e5-57a*1 e6-54b*1 e7-57b*1 e8-54c*1 e9-57c*1
        ea-54d*1 eb-57d*1 ec-54e*1 ed-57e*1 ee-54f*1 ef-57f*1 f0-550*1 f1-580*1 f2-551*1 f3-581*1 f4-552*1 f5-582*1
        f6-553*1 f7-583*1 f8-554*1 f9-584*1 fa-555*1 fb-585*1 fc-556*1 fd-586*1 fe-2019*1 ff-27*1
    """,
    "big5": """
        a15a-fffd*1 a1c3-fffd*1 a1c5-fffd*1 a1fe-fffd*1 a240-fffd*1 a2cc-fffd*1 a2ce-fffd*1 f9d6-7881*1 f9d7-92b9*1
        f9d8-88cf*1 f9d9-58bb*1 f9da-6052*1 f9db-7ca7*1 f9dc-5afa*1
    """,
    "cp1256": """
        8a-x*1 8f-x*1 98-x*1 9a-x*1 9f-x*1 aa-x*1 c0-x*1 ff-x*1
    """,
    "cp866": """
        fc-207f*1 fd-b2*1
    """,
    "cp932": """
        80-x*1 a0-x*1 fd-x*3
    """,
    "dec8": """
        0-0*164 a5-a5*1 a7-a7*1 a8-a4*1 a9-a9*3 b0-b0*4 b5-b5*3 b9-b9*5 bf-bf*17 d1-d1*6 d7-152*1 d8-d8*5 dd-178*1
        df-df*17 f1-f1*6 f7-153*1 f8-f8*5 fd-ff*1
    """,
    "eucjpms": """
        a1c1-ff5e*1 a1c2-2225*1 a1dd-ff0d*1 a1f1-ffe0*2 a2cc-ffe2*1 ada1-2460*20 adb5-2160*10 adc0-3349*1 adc1-3314*1
        adc2-3322*1 adc3-334d*1 adc4-3318*1 adc5-3327*1 adc6-3303*1 adc7-3336*1 adc8-3351*1 adc9-3357*1 adca-330d*1
        adcb-3326*1 adcc-3323*1 adcd-332b*1 adce-334a*1 adcf-333b*1 add0-339c*3 add3-338e*2 add5-33c4*1 add6-33a1*1
        addf-337b*1 ade0-301d*1 ade1-301f*1 ade2-2116*1 ade3-33cd*1 ade4-2121*1 ade5-32a4*5 adea-3231*2 adec-3239*1
        aded-337e*1 adee-337d*1 adef-337c*1 adf0-2252*1 adf1-2261*1 adf2-222b*1 adf3-222e*1 adf4-2211*1 adf5-221a*1
        adf6-22a5*1 adf7-2220*1 adf8-221f*1 adf9-22bf*1 adfa-2235*1 adfb-2229*2 f5a1-e000*94 f6a1-e05e*94 f7a1-e0bc*94
        f8a1-e11a*94 f9a1-e178*94 faa1-e1d6*94 fba1-e234*94 fca1-e292*94 fda1-e2f0*94 fea1-e34e*94 1a2b7-ff5e*1
        1a2c3-ffe4*1 1f3f3-2170*10 1f3fd-2160*2 1f4a1-2162*8 1f4a9-ff07*1 1f4aa-ff02*1 1f4ab-3231*1 1f4ac-2116*1
        1f4ad-2121*1 1f4ae-70bb*1 1f4af-4efc*1 1f4b0-50f4*1 1f4b1-51ec*1 1f4b2-5307*1 1f4b3-5324*1 1f4b4-fa0e*1
        1f4b5-548a*1 1f4b6-5759*1 1f4b7-fa0f*2 1f4b9-589e*1 1f4ba-5bec*1 1f4bb-5cf5*1 1f4bc-5d53*1 1f4bd-fa11*1
        1f4be-5fb7*1 1f4bf-6085*1 1f4c0-6120*1 1f4c1-654e*1 1f4c2-663b*1 1f4c3-6665*1 1f4c4-fa12*1 1f4c5-f929*1
        1f4c6-6801*1 1f4c7-fa13*2 1f4c9-6a6b*1 1f4ca-6ae2*1 1f4cb-6df8*1 1f4cc-6df2*1 1f4cd-7028*1 1f4ce-fa15*2
        1f4d0-7501*1 1f4d1-7682*1 1f4d2-769e*1 1f4d3-fa17*1 1f4d4-7930*1 1f4d5-fa18*4 1f4d9-7ae7*1 1f4da-fa1c*2
        1f4dc-7da0*1 1f4dd-7dd6*1 1f4de-fa1e*1 1f4df-8362*1 1f4e0-fa1f*1 1f4e1-85b0*1 1f4e2-fa20*2 1f4e4-8807*1
        1f4e5-fa22*1 1f4e6-8b7f*1 1f4e7-8cf4*1 1f4e8-8d76*1 1f4e9-fa23*3 1f4ec-90de*1 1f4ed-fa26*1 1f4ee-9115*1
        1f4ef-fa27*2 1f4f1-9592*1 1f4f2-f9dc*1 1f4f3-fa29*1 1f4f4-973b*1 1f4f5-974d*1 1f4f6-9751*1 1f4f7-fa2a*3
        1f4fa-999e*1 1f4fb-9ad9*1 1f4fc-9b72*1 1f4fd-fa2d*1 1f4fe-9ed1*1 1f5a1-e3ac*94 1f6a1-e40a*94 1f7a1-e468*94
        1f8a1-e4c6*94 1f9a1-e524*94 1faa1-e582*94 1fba1-e5e0*94 1fca1-e63e*94 1fda1-e69c*94 1fea1-e6fa*94
    """,
    "gb18030": """
        a8bc-1e3f*1 11d21-e7c7*1
    """,
    "geostd8": """
        0-0*128 80-20ac*1 82-201a*1 84-201e*1 85-2026*1 86-2020*2 89-2030*1 8b-2039*1 91-2018*2 93-201c*2 95-2022*1
        96-2013*2 9b-203a*1 a0-a0*32 c0-10d0*7 c7-10f1*1 c8-10d7*6 ce-10f2*1 cf-10dd*6 d5-10f3*1 d6-10e3*12 e2-10f4*1
        e3-10ef*2 e5-10f5*1 fd-2116*1
    """,
    "greek": """
        a1-2bd*1 a2-2bc*1 a4-x*2 aa-x*1
    """,
    "hebrew": """
        af-203e*1
    """,
    "keybcs2": """
        0-0*128 80-10c*1 81-fc*1 82-e9*1 83-10f*1 84-e4*1 85-10e*1 86-164*1 87-10d*1 88-11b*1 89-11a*1 8a-139*1
        8b-cd*1 8c-13e*1 8d-13a*1 8e-c4*1 8f-c1*1 90-c9*1 91-17e*1 92-17d*1 93-f4*1 94-f6*1 95-d3*1 96-16f*1 97-da*1
        98-fd*1 99-d6*1 9a-dc*1 9b-160*1 9c-13d*1 9d-dd*1 9e-158*1 9f-165*1 a0-e1*1 a1-ed*1 a2-f3*1 a3-fa*1 a4-148*1
        a5-147*1 a6-16e*1 a7-d4*1 a8-161*1 a9-159*1 aa-155*1 ab-154*1 ac-bc*1 ad-a1*1 ae-ab*1 af-bb*1 b0-2591*3
        b3-2502*1 b4-2524*1 b5-2561*2 b7-2556*1 b8-2555*1 b9-2563*1 ba-2551*1 bb-2557*1 bc-255d*1 bd-255c*1 be-255b*1
        bf-2510*1 c0-2514*1 c1-2534*1 c2-252c*1 c3-251c*1 c4-2500*1 c5-253c*1 c6-255e*2 c8-255a*1 c9-2554*1 ca-2569*1
        cb-2566*1 cc-2560*1 cd-2550*1 ce-256c*1 cf-2567*2 d1-2564*2 d3-2559*1 d4-2558*1 d5-2552*2 d7-256b*1 d8-256a*1
        d9-2518*1 da-250c*1 db-2588*1 dc-2584*1 dd-258c*1 de-2590*1 df-2580*1 e0-3b1*1 e1-df*1 e2-393*1 e3-3c0*1
        e4-3a3*1 e5-3c3*1 e6-b5*1 e7-3c4*1 e8-3a6*1 e9-398*1 ea-3a9*1 eb-3b4*1 ec-221e*1 ed-3c6*1 ee-3b5*1 ef-2229*1
        f0-2261*1 f1-b1*1 f2-2265*1 f3-2264*1 f4-2320*2 f6-f7*1 f7-2248*1 f8-b0*1 f9-2219*1 fa-b7*1 fb-221a*1
        fc-207f*1 fd-b2*1 fe-25a0*1 ff-a0*1
    """,
    "koi8u": """
        95-2022*1
    """,
    "latin1": """
        81-81*1 8d-8d*1 8f-8f*2 9d-9d*1
    """,
    "sjis": """
        5c-5c*1 7e-7e*1 81ad-x*11 81c0-x*8 81cf-x*11 81e9-x*7 81f8-x*4 8240-x*15 8259-x*7 827a-x*5 8280-x*1 829b-x*4
        82f2-x*3 83b7-x*8 83d7-x*31 83f7-x*6 8461-x*15 8492-x*13 84bf-x*30 84e5-x*22 8540-x*63 8580-x*125 8640-x*35
        8664-x*3 866f-x*16 8680-x*5 8687-x*107 86fb-x*2 8740-x*55 877e-x*1 8780-x*16 8793-x*1 8798-x*2 879d-x*2
        87a0-x*93 8840-x*63 8880-x*30 9874-x*11 9880-x*30 eaa6-x*87 eb40-x*63 eb80-x*125 ec40-x*63 ec80-x*125
        ed40-x*63 ed80-x*125 ee40-x*63 ee80-x*125 ef40-x*63 ef80-x*120 f040-x*63 f080-x*125 f140-x*63 f180-x*125
        f240-x*63 f280-x*125 f340-x*63 f380-x*125 f440-x*63 f480-x*125 f540-x*63 f580-x*125 f640-x*63 f680-x*125
        f740-x*63 f780-x*125 f840-x*63 f880-x*125 f940-x*63 f980-x*125 fa40-x*63 fa80-x*125 fb40-x*63 fb80-x*125
        fc40-x*63 fc80-x*117
    """,
    "swe7": """
        0-0*64 40-c9*1 41-41*26 5b-c4*1 5c-d6*1 5d-c5*1 5e-dc*1 5f-5f*1 60-e9*1 61-61*26 7b-e4*1 7c-f6*1 7d-e5*1
        7e-fc*1
    """,
    "tis620": """
        a0-fffd*1 db-fffd*1 dc-fffd*1 dd-fffd*1 de-fffd*1 fc-fffd*1 fd-fffd*1 fe-fffd*1 ff-fffd*1
    """,
    "ujis": """
        a1c0-5c*1 f5a1-e000*94 f6a1-e05e*94 f7a1-e0bc*94 f8a1-e11a*94 f9a1-e178*94 faa1-e1d6*94 fba1-e234*94
        fca1-e292*94 fda1-e2f0*94 fea1-e34e*94 1f5a1-e3ac*94 1f6a1-e40a*94 1f7a1-e468*94 1f8a1-e4c6*94 1f9a1-e524*94
        1faa1-e582*94 1fba1-e5e0*94 1fca1-e63e*94 1fda1-e69c*94 1fea1-e6fa*94
    """,
}
