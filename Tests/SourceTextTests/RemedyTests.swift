import Foundation
import LanyardClient
import TestSupport
import Testing

/// What messages and pages tell an operator to use exists: commands with their flags and values, configuration keys, events, pages.
///
/// Messages are all string literals of the program. So a remedy is found wherever it is written.
@Suite struct RemedyTests {
    /// A command of a built program, as its parser describes it.
    struct Command {
        let name: String
        let subcommands: [Command]
        /// The one whose flags may follow the program's name.
        let defaultSubcommand: String?
        /// With their dashes; true: a value follows.
        let flags: [String: Bool]
        /// Values without a flag.
        let valuesMin: Int
        let valuesMax: Int

        /// - Parameter configurationFlags: of commands that take a configuration; they are read apart from the parser's.
        init(_ json: JSON, _ configurationFlags: [String]) {
            name = json["commandName"].string ?? ""
            subcommands = json["subcommands"].array.map { Command($0, configurationFlags) }
            defaultSubcommand = json["defaultSubcommand"].string
            var flags: [String: Bool] = [:]
            var (valuesMin, valuesMax) = (0, 0)
            for argument in json["arguments"].array {
                let isRepeating = argument["isRepeating"].bool == true
                if argument["kind"].string == "positional" {
                    if argument["valueName"].string == "flags" {
                        for flag in configurationFlags where flags[flag] == nil { flags[flag] = true }
                        continue
                    }
                    valuesMin += argument["isOptional"].bool == true ? 0 : 1
                    valuesMax += isRepeating ? 100 : 1
                }
                for name in argument["names"].array {
                    let dashes = name["kind"].string == "long" ? "--" : "-"
                    flags[dashes + (name["name"].string ?? "")] = argument["kind"].string == "option"
                }
            }
            (self.flags, self.valuesMin, self.valuesMax) = (flags, valuesMin, valuesMax)
        }

        /// Why these words after the command's name cannot be meant; nil: they can. Prose may follow a command.
        func finding(_ words: ArraySlice<String>) -> String? {
            if let first = words.first, let next = subcommands.first(where: { $0.name == first }) {
                return next.finding(words.dropFirst())
            }
            if let first = words.first, first.hasPrefix("-"), flags[first] == nil,
                let next = subcommands.first(where: { $0.name == defaultSubcommand })
            {
                return next.finding(words)
            }
            if !subcommands.isEmpty, let first = words.first, !first.hasPrefix("-"), first != "COMMAND" {
                return "\(name) has no command \(first)"
            }
            var (rest, values, isUsed) = (words, 0, false)
            while let word = rest.popFirst() {
                if word.hasPrefix("-") {
                    guard let takesValue = flags[word] else { return "\(name) has no flag \(word)" }
                    isUsed = true
                    if takesValue, rest.popFirst() == nil { return "\(name) \(word) lacks its value" }
                } else if word.allSatisfy({ $0.isUppercase || $0 == "_" }) || word.hasPrefix("/") {
                    values += 1
                } else {
                    break
                }
            }
            if values > valuesMax, subcommands.isEmpty { return "\(name) takes \(valuesMax) values" }
            return isUsed && values < valuesMin ? "\(name) lacks a value" : nil
        }
    }

    /// The first cells of a page's tables, without backticks.
    private static func firstCells(of page: String) -> [String] {
        page.split(separator: "\n").filter { $0.hasPrefix("| `") }.map { line in
            String(line.dropFirst(3).prefix { $0 != "`" })
        }
    }

    /// The texts of messages, and the parts of pages in backticks, by where they stand.
    private static func texts() throws -> [(place: String, text: String)] {
        let sources = try SourceFiles.texts(below: "Sources").filter { SourceFiles.holds($0.value, "\"") }
        let messages = sources.flatMap { path, text in SourceLiterals.all(of: text).map { (path, $0) } }
        let names = [
            "use/operating", "use/monitoring", "use/troubleshooting", "use/log-events", "reference/errors",
            "use/commands",
            "use/tutorial", "reference/store", "use/admin", "use/admin-users", "use/deploying", "use/emulator",
            "use/emulator-oauth",
        ]
        let pages =
            try names.flatMap { name in
                let page = try SourceFiles.text(of: "docs/\(name).md")
                let spans = page.split(separator: "\n").flatMap { line in
                    line.split(separator: "`", omittingEmptySubsequences: false).enumerated()
                        .filter { $0.offset % 2 == 1 }.map { String($0.element) }
                }
                return spans.map { ("docs/\(name).md", $0) }
            }
        return messages + pages
    }

    /// The first words behind a program's name, without the punctuation that follows them.
    private static func words(_ text: Substring) -> [String] {
        var words: [String] = []
        for part in text.split(separator: " ").prefix(12) {
            let word = part.prefix { !",;:)\"'\n".contains($0) }
            guard !word.isEmpty else { break }
            words.append(word.hasSuffix(".") ? String(word.dropLast()) : String(word))
            if word.endIndex != part.endIndex { break }
        }
        return words
    }

    /// Those that the help of `check` lists.
    private static func configurationFlags() async throws -> [String] {
        let process = try ServerProcess("lanyard", ["check", "--help"])
        #expect(try await process.waitForExit() == .code(0))
        return process.output.split(separator: "\n").filter { $0.hasPrefix("  --") }.map { line in
            String(line.dropFirst(2).prefix { $0 != " " })
        }
    }

    private static func commands(of program: String) async throws -> Command {
        let process = try ServerProcess(program, ["--experimental-dump-help"])
        #expect(try await process.waitForExit() == .code(0))
        return Command(
            try JSON(text: process.output)["command"],
            program == "lanyard" ? try await configurationFlags() : [])
    }

    @Test("each command that a message or a page names is one, and the flags and values that follow it fit")
    func commands() async throws {
        let programs = [try await Self.commands(of: "lanyard"), try await Self.commands(of: "lanyard-emulator")]
        var count = 0
        for (place, text) in try Self.texts() {
            for program in programs where SourceFiles.holds(text, program.name + " ") {
                for range in text.ranges(of: program.name + " ") {
                    let before = text[..<range.lowerBound]
                    if let last = before.last, last.isLetter || "./@-_".contains(last) { continue }
                    // A user, group or unit of that name.
                    if ["-u ", "-o ", "-g "].contains(where: before.hasSuffix) { continue }
                    let words = Self.words(text[range.upperBound...])
                    guard let first = words.first, !Self.isProse(first, text) else { continue }
                    count += 1
                    let finding = program.finding(words[...])
                    #expect(finding == nil, "\(place): \(program.name) \(words.joined(separator: " "))")
                }
            }
        }
        #expect(count > 60)
    }

    /// Labels from which keys are derived.
    private static let labels = [
        "lanyard store key id", "lanyard key id", "lanyard store file key", "lanyard store record key",
        "lanyard store check key", "lanyard identity mark", "lanyard account mark", "lanyard variant mark",
        "lanyard used refresh token", "lanyard spent credential",
    ]

    /// Whether the program's name is followed by something else than a command.
    private static func isProse(_ word: String, _ text: String) -> Bool {
        word == "VALUE" || word == "or" || word == "--generate-completion-script" || labels.contains(text)
    }

    @Test("each flag that a message names is a flag of a command or of the configuration")
    func flags() async throws {
        var flags: Set<String> = []
        func add(_ command: Command) {
            flags.formUnion(command.flags.keys)
            command.subcommands.forEach(add)
        }
        for program in ["lanyard", "lanyard-emulator"] { add(try await Self.commands(of: program)) }
        // The parser's own.
        flags.insert("--generate-completion-script")
        // Of curl.
        flags.insert("--unix-socket")
        for (place, text) in try Self.texts() where place.hasPrefix("Sources/") && SourceFiles.holds(text, "--") {
            let words = text.split { " ,;:.()\"'`=\n|[]".contains($0) }
            // A flag alone is a name in the code, such as of one that is refused.
            for word in words
            where word.hasPrefix("--") && words.count > 1 && word.dropFirst(2).first?.isLowercase == true {
                #expect(flags.contains(String(word)), "\(place): \(text)")
            }
        }
    }

    @Test("each dotted key that a message names is a configuration key, an event, or a part of one")
    func keys() throws {
        let keys = try ["routes", "identities", "limits"].flatMap { name in
            Self.firstCells(of: try SourceFiles.text(of: "docs/use/configuration-\(name).md"))
        }
        let sections = Set(keys.compactMap { $0.split(separator: ".").first.map { $0.prefix { $0 != "[" } } })
        let events = Self.firstCells(of: try SourceFiles.text(of: "docs/use/log-events.md"))
        // A section is no row of its own.
        var known = Set(events + events.map { String($0.drop { $0 != "." }.dropFirst()) })
        // Files.
        known.formUnion(["admin.sock", "store.key"])
        for key in keys {
            var path = ""
            for part in key.split(separator: ".") {
                path += (path.isEmpty ? "" : ".") + part
                known.insert(path)
                known.insert(path.hasSuffix("[]") ? String(path.dropLast(2)) : path)
            }
        }
        #expect(known.count > 200)
        for (place, text) in try Self.texts() where SourceFiles.holds(text, ".") {
            for word in text.split(whereSeparator: { !($0.isLetter || $0.isNumber || "_.*[]".contains($0)) }) {
                let parts = word.split(separator: ".")
                guard parts.count > 1, sections.contains(parts[0].prefix { $0 != "[" }), !word.hasSuffix("."),
                    word.allSatisfy({ $0.isLowercase || $0.isNumber || "_.*[]".contains($0) })
                else { continue }
                let isKnown = known.contains(String(word)) || keys.contains { $0.hasSuffix(".\(word)") }
                #expect(isKnown, "\(place): \(word) in \(text)")
            }
        }
    }

    @Test("each page and file that a message names is there")
    func pages() throws {
        for (place, text) in try Self.texts() where place.hasPrefix("Sources/") && SourceFiles.holds(text, ".md") {
            for word in text.split(whereSeparator: { " ,;:()\"'`\n".contains($0) }) where word.contains(".md") {
                let path = word.hasSuffix(".") ? word.dropLast() : word
                #expect(FileManager.default.fileExists(atPath: "\(Products.root)/\(path)"), "\(place): \(word)")
            }
        }
    }
}
