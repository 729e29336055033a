# Prints the targets of a Makefile with their `##` texts, under the `##@` headings.
BEGIN { FS = ":.*## " }
/^##@/ { printf "\n%s\n", substr($0, 5) }
/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $1, $2 }
