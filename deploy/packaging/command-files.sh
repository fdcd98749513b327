# command_files NAME PROGRAM SHARE DATE: the manual page and the completions of a program, which describes itself, below the folder SHARE.
# Sourced by deploy/package and deploy/check-commands, never run by itself.
command_files() {
    local name=$1 program=$2 share=$3 date=$4 sections=() each file
    if [ "$name" = lanyard ]; then
        sections=(--section ENVIRONMENT=deploy/packaging/lanyard.environment.mdoc --section FILES=deploy/packaging/lanyard.files.mdoc
            --section "EXIT STATUS=deploy/packaging/lanyard.exit-status.mdoc" --section EXAMPLES=deploy/packaging/lanyard.examples.mdoc
            --section "SEE ALSO=deploy/packaging/lanyard.see-also.mdoc")
        mkdir -p "$share/man/man5" && python3 -B deploy/packaging/configuration_manual.py --date "$date" docs/use/configuration-*.md |
            gzip -9n >"$share/man/man5/lanyard.yaml.5.gz" && chmod 0644 "$share/man/man5/lanyard.yaml.5.gz" || return 1
    fi
    mkdir -p "$share/man/man1" &&
        "$program" --experimental-dump-help </dev/null | python3 deploy/packaging/manual.py --date "$date" "${sections[@]}" |
        gzip -9n >"$share/man/man1/$name.1.gz" && chmod 0644 "$share/man/man1/$name.1.gz" || return 1
    for each in bash:bash-completion/completions/NAME zsh:zsh/vendor-completions/_NAME fish:fish/vendor_completions.d/NAME.fish; do
        file=${each#*:} file=$share/${file/NAME/"$name"}
        # Without the first line that names a shell: the file is read, not run.
        mkdir -p "${file%/*}" && "$program" --generate-completion-script "${each%%:*}" </dev/null | sed '1{/^#!/d}' >"$file" &&
            chmod 0644 "$file" || return 1
    done
}
