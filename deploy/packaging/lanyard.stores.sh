# named_stores: what may be a store outside of /var/lib/lanyard, one a line: `store PATH`, or `unread FILE` for a file that may name one.
# The program reads the configurations, because only it knows what they say. What it cannot read is in doubt: the key of a store is worth
# more than a clean folder. deploy/package puts this function into the package's scripts.
named_stores() {
    root=${DPKG_ROOT:-}
    # A link that leads nowhere now, such as to a disk that is not mounted, may lead to a configuration.
    find -L "$root/etc/lanyard" -type l 2>/dev/null | LC_ALL=C sort | while read -r file; do printf 'unread %s\n' "$file"; done
    find -L "$root/etc/lanyard" -type f ! -name store.key ! -name store.paths 2>/dev/null | LC_ALL=C sort | while read -r file; do
        if path=$(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin timeout 60 "$root/usr/bin/lanyard" check --print-store-path \
            --config "$file" 2>/dev/null </dev/null); then
            case $path in
            "" | /var/lib/lanyard/*) case $path in */../*) printf 'store %s\n' "$path" ;; esac ;;
            *) printf 'store %s\n' "$path" ;;
            esac
        else
            # A password, a certificate or a note is no configuration either.
            case $file in
            *.yaml | *.yml | *.json) printf 'unread %s\n' "$file" ;;
            *) if grep -qi store -- "$file"; then printf 'unread %s\n' "$file"; fi ;;
            esac
        fi
    done
    # Settings of the service win over the configuration. systemd alone knows how they are read: a file that could set a variable or the
    # command line of Lanyard is in doubt. The package's own unit is not.
    for folder in /etc /run /usr/local/lib; do
        find -L "$root$folder/systemd/system" -type f 2>/dev/null
    done | LC_ALL=C sort | while read -r file; do
        case $(realpath -- "$file") in "$root"/usr/lib/* | "$root"/lib/*) continue ;; esac
        case $file in
        */lanyard*.d/* | */service.d/*) names='Exec|EnvironmentFile|PassEnvironment|LANYARD_|\\' ;;
        # Another unit, which may run Lanyard.
        *) if grep -q lanyard -- "$file"; then names='Exec|Environment'; else continue; fi ;;
        esac
        if grep -Eq "$names" -- "$file"; then printf 'unread %s\n' "$file"; fi
    done
    for file in "$root/etc/default/lanyard" "$root"/etc/systemd/system.conf "$root"/etc/systemd/system.conf.d/*; do
        if grep -qs LANYARD_ -- "$file"; then printf 'unread %s\n' "$file"; fi
    done
}

# note_stores FILE: writes what named_stores says, and then `end`. A disk may be full in the midst of it: without its last line a note
# says nothing of what is not in it. Fails if the note is not whole.
note_stores() {
    lines=$(named_stores) && printf '%s\nend\n' "$lines" >"$1"
}
