# stores_elsewhere: the paths of stores outside of /var/lib/lanyard that the configuration or the service's settings name, one a line.
# deploy/package puts this function into the package's scripts.
stores_elsewhere() {
    for file in /etc/lanyard/*.yaml /etc/default/lanyard /etc/systemd/system/lanyard.service.d/*.conf; do
        if [ -f "$file" ] && [ -r "$file" ]; then
            awk '
                function value(start) {
                    text = substr($0, start)
                    sub(/^["\047 \t]+/, "", text)
                    sub(/["\047,} \t#].*/, "", text)
                    if (text == "") return
                    if (text !~ /^\//) text = "/etc/lanyard/" text
                    if (text !~ /^\/var\/lib\/lanyard\//) print text
                }
                /^[ \t]*#/ { next }
                /^[^ \t]/ { is_store = /^store:/ }
                is_store && match($0, /[{, \t]path:[ \t]/) { value(RSTART + RLENGTH) }
                match($0, /LANYARD_STORE_PATH=/) || match($0, /--store-path[ =]/) { value(RSTART + RLENGTH) }
            ' "$file"
        fi
    done
}
