# stores_elsewhere: the paths of stores outside of /var/lib/lanyard that the configuration or the service's settings name, one a line.
# deploy/package puts this function into the package's scripts.
stores_elsewhere() {
    for file in /etc/lanyard/*.yaml /etc/default/lanyard /etc/systemd/system/lanyard.service.d/*.conf; do
        if [ -f "$file" ] && [ -r "$file" ]; then
            awk '
                # The quotes stand before the value, or before the name of a variable. Without them the value goes to what `end` matches.
                function value(start, before, end) {
                    text = substr($0, start)
                    sub(/^[ \t]+/, "", text)
                    quote = substr(text, 1, 1)
                    if (quote ~ /["\047]/) text = substr(text, 2)
                    else quote = before
                    if (quote ~ /["\047]/) { if (index(text, quote)) text = substr(text, 1, index(text, quote) - 1) }
                    else if (match(text, end)) text = substr(text, 1, RSTART - 1)
                    sub(/[ \t]+$/, "", text)
                    if (text == "") return
                    if (text !~ /^\//) text = "/etc/lanyard/" text
                    if (text !~ /^\/var\/lib\/lanyard\//) print text
                }
                /^[ \t]*#/ { next }
                /^[^ \t]/ { is_store = /^store:/ }
                is_store && match($0, /[{, \t]path:[ \t]/) {
                    value(RSTART + RLENGTH, "", /[{]/ ? "[,}]|[ \t]#" : "[ \t]#")
                }
                match($0, /LANYARD_STORE_PATH=/) || match($0, /--store-path[ =]/) {
                    value(RSTART + RLENGTH, substr($0, RSTART - 1, 1), "[ \t]")
                }
            ' "$file"
        fi
    done
}
