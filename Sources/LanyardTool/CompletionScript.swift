import LanyardConfiguration

/// The completion script of a shell, with the configuration flags of `run` and of the commands that take the same.
///
/// The parser does not know these flags, because they are made from the table of keys. So its scripts lack them, and they are added where a
/// script lists the flags of a command. A script of another form stays as it is; a test completes a configuration flag in each shell.
enum CompletionScript {
    private static let request = "--generate-completion-script"
    /// The commands that take configuration flags, as words behind the program's name.
    private static let commands = ["run", "check", "init", "route", "store rekey", "store export"]

    /// - Parameters:
    ///   - text: what the parser prints for these arguments.
    ///   - arguments: the command line without the program's name.
    /// - Returns: the same text, unless the arguments ask for a script.
    static func completed(_ text: String, _ arguments: [String]) -> String {
        guard let place = arguments.firstIndex(where: { $0 == request || $0.hasPrefix("\(request)=") }) else {
            return text
        }
        let shell =
            arguments[place] == request
            ? arguments.dropFirst(place + 1).first : String(arguments[place].dropFirst(request.count + 1))
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        let added =
            switch shell {
            case "bash": bash(lines)
            case "zsh": zsh(lines)
            case "fish": fish(lines)
            default: lines
            }
        return added.joined(separator: "\n")
    }

    private static var flags: [ConfigurationFlag] { ConfigurationFlag.all }
    private static func isFile(_ flag: ConfigurationFlag) -> Bool {
        if case .file = flag.value { true } else { false }
    }

    /// The line with which the function of a command begins, in bash and zsh.
    private static let functions = commands.map { "_lanyard_\(String($0.map { $0 == " " ? "_" : $0 }))() {" }

    // MARK: Shells

    /// A function has the names of flags and options in arrays, and then the completions of values.
    private static func bash(_ lines: [String]) -> [String] {
        let switches = flags.filter { $0.value == .boolean }.map(\.name).joined(separator: " ")
        let options = flags.filter { $0.value != .boolean }.map(\.name).joined(separator: " ")
        let files = flags.filter(isFile).map { "'\($0.name)'" }.joined(separator: " | ")
        let choices = flags.filter { !$0.choices.isEmpty }.flatMap { flag in
            let words = flag.choices.map { "'\($0)'" }.joined(separator: "$'\\n'")
            return [
                "    '\(flag.name)')", "        __lanyard_add_completions -W \(words)", "        return", "        ;;",
            ]
        }
        let values =
            [
                "    case \"${prev}\" in", "    \(files))", "        __lanyard_add_completions -f", "        return",
                "        ;;",
            ] + choices + ["    esac"]
        return changed(withFileNames(lines)) { line in
            if let rest = line.suffix(behind: "    non_repeating_flags=(") {
                return ["    non_repeating_flags=(\(switches) \(rest)"]
            }
            if let rest = line.suffix(behind: "    non_repeating_options=(") {
                return ["    non_repeating_options=(\(options) \(rest)"]
            }
            return line.hasPrefix("    __lanyard_offer_flags_options ") ? [line] + values : nil
        }
    }

    /// Marks completions as names of files only where they are: bash adds a slash to each word that is also the name of a folder here.
    private static func withFileNames(_ lines: [String]) -> [String] {
        lines.flatMap { line in
            if line == "__lanyard_add_completions() {" {
                return [line, "    [[ \" ${*} \" = *' -'[df]' '* ]] && compopt -o filenames 2>/dev/null"]
            }
            return [line == "complete -o filenames -F _lanyard lanyard" ? "complete -F _lanyard lanyard" : line]
        }
    }

    /// A function has one word for each flag.
    private static func zsh(_ lines: [String]) -> [String] {
        let words = flags.map { flag in
            let meaning = flag.meaning.escaped(["[", "]", ":", "\\"], by: "\\").escaped(["'"], by: "'\\'")
            let words = flag.choices.isEmpty ? "" : "(\(flag.choices.joined(separator: " ")))"
            let value = flag.value == .boolean ? "" : isFile(flag) ? ":path:_files" : ":value:\(words)"
            return "        '\(flag.name)[\(meaning)]\(value)'"
        }
        return changed(lines) { $0 == "    local -ar arg_specs=(" ? [$0] + words : nil }
    }

    /// One function parses all commands; each completion is a line of its own.
    private static func fish(_ lines: [String]) -> [String] {
        let names = flags.map { " '\($0.name.dropFirst(2))\($0.value == .boolean ? "" : "=")'" }.joined()
        let cases = Set(commands.map { "case '\($0.split(separator: " ").last ?? "")'" })
        var isCase = false
        var added = lines.map { line in
            defer { isCase = cases.contains(String(line.drop { $0 == " " })) }
            return isCase ? line + names : line
        }
        if added.last == "" { added.removeLast() }
        for command in commands {
            added += flags.map { flag in
                let name = flag.name.dropFirst(2)
                let words = flag.choices.joined(separator: " ")
                let value = flag.value == .boolean ? "" : isFile(flag) ? " -rF" : " -rfka '\(words)'"
                return
                    "complete -c 'lanyard' -n '__lanyard_should_offer_completions_for_flags_or_options \"lanyard \(command)\" \(name)'"
                    + " -l '\(name)' -d '\(flag.meaning.escaped(["'", "\\"], by: "\\"))'\(value)"
            }
        }
        return added
    }

    /// Replaces lines within the functions of the commands.
    private static func changed(_ lines: [String], _ replacement: (String) -> [String]?) -> [String] {
        var isInside = false
        return lines.flatMap { line in
            if line.hasSuffix("() {") { isInside = functions.contains(line) }
            return isInside ? replacement(line) ?? [line] : [line]
        }
    }
}

extension String {
    /// What follows a beginning; nil: it does not begin so.
    fileprivate func suffix(behind beginning: String) -> Substring? {
        hasPrefix(beginning) ? dropFirst(beginning.count) : nil
    }

    /// With something before each of these characters.
    fileprivate func escaped(_ characters: Set<Character>, by escape: String) -> String {
        reduce(into: "") { $0 += characters.contains($1) ? escape + String($1) : String($1) }
    }
}
