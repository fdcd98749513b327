import TestSupport
import Testing

/// In these folders each switch names its cases: a relation, a stage, a wait or a state that is added must be decided in
/// each of them.
@Suite struct ExhaustiveSwitchTests {
    private static let exchange = "Sources/LanyardRequestPath/Exchange"
    private static let folders = [
        "Sources/LanyardSessions/Coordination", "Sources/LanyardSessions/StateMachine", "\(exchange)/Client",
        "\(exchange)/Replay", "\(exchange)/Tunnel", "Sources/LanyardRequestPath/Clients",
    ]

    /// The lines that begin a `default` of a switch, or a pattern that names no case.
    private static func faults(in texts: [String: String]) -> [String] {
        texts.sorted { $0.key < $1.key }.flatMap { path, text in
            SourceFiles.codeLines(of: text).compactMap { number, line in
                isDefault(line) || isCatchAll(line) ? "\(path):\(number)" : nil
            }
        }
    }

    private static func isDefault(_ line: Substring) -> Bool {
        let words = SourceFiles.words(of: line)
        let code = line.drop { $0 == " " || $0 == "@" }
        return words.first == "default" && code.dropFirst("default".count).drop { $0 == " " }.first == ":"
            || words.prefix(2) == ["unknown", "default"]
    }

    /// A pattern of wildcards and new names alone matches each case, with or without a condition.
    private static func isCatchAll(_ line: Substring) -> Bool {
        let code = line.drop { $0 == " " }
        guard code.hasPrefix("case ") else { return false }
        let pattern = code.dropFirst("case ".count).prefix { $0 != ":" }
        let words = SourceFiles.words(of: pattern).prefix { $0 != "where" }
        guard let first = words.first, ["_", "let", "var"].contains(first) else {
            return pattern.first == "(" && isTupleOfNames(pattern)
        }
        // `case let .valid(tokens)` and `case let tokens?` name a case.
        let condition = pattern.firstRange(of: " where ")?.lowerBound ?? pattern.endIndex
        return !pattern[..<condition].contains { ".?".contains($0) }
    }

    /// `(_, let grant)`; in `(.valid, _)` a part names a case.
    private static func isTupleOfNames(_ pattern: Substring) -> Bool {
        let condition = pattern.firstRange(of: " where ")?.lowerBound ?? pattern.endIndex
        return pattern[..<condition].split(separator: ",").allSatisfy { part in
            let words = SourceFiles.words(of: part)
            let isName = words == ["_"] || words.count == 2 && ["let", "var"].contains(words[0])
            return isName && !part.contains { ".?".contains($0) }
        }
    }

    @Test("no switch of the machines of sessions and client connections has a catch-all", arguments: folders)
    func noCatchAll(_ folder: String) throws {
        let texts = try SourceFiles.texts(below: folder)
        #expect(texts.count >= 3)
        #expect(Self.faults(in: texts) == [], "name the cases")
    }

    // MARK: Tuples

    /// Remainders of tuples that are right by meaning: the number of their lines, by file.
    private static let allowedRemainders: [String: (lines: Int, reason: String)] = [
        "Sources/LanyardConfiguration/Keys/ConfigurationCheck.swift": (3, "the key alone says which form was expected"),
        "\(exchange)/Replay/RefusedResponse.swift": (
            1, "of the two parts either decides alone that there is no replay"
        ),
    ]

    /// A wildcard in a tuple is right where the other parts decide alone: in `case (.ended, _): .drop` no value of the second part
    /// matters. It is a remainder, and swallows each case that is added, if an earlier pattern of the switch names a case in its place
    /// and can match the same values elsewhere: `case (.own, .refresh): …` and then `case (.own, _): …`, with a condition or not. Name
    /// the cases, or write a switch within the case.
    ///
    /// A wildcard for a `Result`, an optional, or a value that has no list of cases (a number, a text) is none. Nor is one in a switch with
    /// a `default`, which says openly that it has a remainder, and which the folders above do not have.
    @Test("no wildcard in a tuple stands for the remaining cases, except for the listed ones")
    func noRemainder() throws {
        var seen = 0
        var counts: [String: Int] = [:]
        let starts = ["case (", "case let (", "case var ("]
        for (path, text) in try SourceFiles.texts(below: "Sources")
        where starts.contains(where: { SourceFiles.holds(text, $0) }) {
            let switches = TupleSwitch.all(in: text)
            seen += switches.count
            let lines = switches.flatMap(\.remainders)
            if !lines.isEmpty { counts[path] = lines.count }
            let most = Self.allowedRemainders[path]?.lines ?? 0
            #expect(lines.count <= most, "\(path) has remainders in lines \(lines), \(most) are listed: name the cases")
        }
        #expect(seen > 30)
        for (path, entry) in Self.allowedRemainders {
            #expect(counts[path] == entry.lines, "\(path) has fewer remainders than are listed")
        }
    }

    /// Those of a planted switch with these cases.
    private static func remainders(_ cases: [String], _ behind: String = "") -> [Int] {
        let text = "switch (a.one, a.two) {\n" + cases.map { "case \($0): break\n" }.joined() + behind + "}\n"
        return TupleSwitch.all(in: text).flatMap(\.remainders)
    }

    @Test(
        "a planted wildcard behind a case in its place is found",
        arguments: [
            (["(.own, .refresh)", "(.own, _)"], [3]),
            (["(.own, .refresh) where isDue", "(.own, let kind) where isDue", "let (.own, kind)"], [3, 4]),
            (["(.own, .refresh(let token?))", "(.other, _), (.own, _)"], [3]),
            (["(.gone, _)", "(.dead, .refresh)", "(_, .login)"], [4]),
            (["(.lost(let reason), _)", "(_, .lost(let reason))", "(.ready, .ready)"], [3]),
            (["(.own, .refresh, .saving)", "(.own, _, .saving)", "(.own, .login, _)", "(.own, _, _)"], [3, 4, 5]),
            (["(nil, .login)", "(let row?, .login)", "(nil, _)"], [4]),
        ])
    func plantedRemainder(_ cases: [String], _ lines: [Int]) {
        #expect(Self.remainders(cases) == lines)
    }

    @Test(
        "a wildcard that is no remainder is not found",
        arguments: [
            ["(.ended, _)", "(.first, .success)", "(.first, .failure)"],
            ["(.own, .refresh)", "(.own, .login)", "(_, .revocation)"],
            ["(.both, .failure(let error)) where hasTime", "(.both, _)"],
            ["(.own, true)", "(.own, _)"], ["(.own, 3)", "(.own, _)"], ["(.own, \"a\")", "(.own, _)"],
            ["(.own, nil)", "(.own, let token?)", "(.own, _)"],
            ["(.own, _) where isDue", "(.own, .refresh)", "(.own, .login)"],
            [".own(.refresh, 1)", ".own(_, 2)"],
        ])
    func otherWildcard(_ cases: [String]) {
        #expect(Self.remainders(cases) == [])
    }

    @Test("what is in another switch, in a condition or in a switch with a default is not found")
    func elsewhere() {
        let pair = ["(.own, .refresh)", "(.own, _)"]
        #expect(Self.remainders(pair, "default: break\n") == [])
        #expect(Self.remainders([pair[0]], "switch (a, b) {\ncase \(pair[1]): break\n}\n") == [])
        #expect(Self.remainders([pair[0]], "if let a,\n  case \(pair[1]) = (a, b) { }\n") == [])
    }

    /// The lines that compare a deadline with another one.
    private static func comparedDeadlines(in texts: [String: String]) -> [String] {
        texts.sorted { $0.key < $1.key }.flatMap { path, text in
            SourceFiles.codeLines(of: text).compactMap { number, line in
                let words = line.split(separator: " ")
                let isFound = words.indices.contains { index in
                    guard ["===", "!=="].contains(words[index]), index > 0 else { return false }
                    return words[(index - 1)...].prefix(3).contains { $0.lowercased().contains("deadline") }
                }
                return isFound ? "\(path):\(number)" : nil
            }
        }
    }

    @Test("what a deadline is for is told by its purpose, which a switch reads")
    func deadlinePurpose() throws {
        let texts = try SourceFiles.texts(below: "Sources")
        #expect(Self.comparedDeadlines(in: texts) == [], "give the deadline a case of its owner's DeadlinePurpose")
    }

    @Test(
        "a planted comparison of a deadline is found",
        arguments: [
            "if deadline === timer {", "guard deadline !== refresh else { return }",
            "func isToken(_ deadline: Deadline) -> Bool { deadline === token?.deadline }", "return next === deadline",
        ])
    func plantedComparison(_ line: String) {
        #expect(Self.comparedDeadlines(in: ["a.swift": line]) == ["a.swift:1"])
        #expect(Self.comparedDeadlines(in: ["a.swift": "connection === upstream.connection"]) == [])
    }

    // MARK: Relations

    private static let relationFile = "Sources/LanyardSessions/Coordination/StoredRelation.swift"

    /// The cases of `StoredRelation` and of what it says of the session.
    private static func relationCases() throws -> Set<String> {
        let lines = SourceFiles.codeLines(of: try SourceFiles.text(of: relationFile))
        return Set(
            lines.compactMap { _, line in
                let words = SourceFiles.words(of: line)
                let isCase = words.first == "case" && !line.contains { ".:(".contains($0) }
                return isCase ? String(words[1]) : nil
            })
    }

    /// Other values with a case of the same name, by the last word of what is compared.
    private static let others: Set<Substring> = ["state", "loginState", "reason", "base"]

    /// The lines that ask for one case of a relation: `== .case`, `!= .case`, or a pattern outside of a switch.
    private static func singleRelations(in texts: [String: String], _ cases: Set<String>) -> [String] {
        texts.sorted { $0.key < $1.key }.flatMap { path, text in
            SourceFiles.codeLines(of: text).compactMap { number, line in
                asksForCase(line, cases) || hasPattern(line, cases) ? "\(path):\(number)" : nil
            }
        }
    }

    private static func asksForCase(_ line: Substring, _ cases: Set<String>) -> Bool {
        ["== .", "!= ."].contains { sign in
            line.ranges(of: sign).contains { range in
                let name = line[range.upperBound...].prefix { $0.isLetter }
                let compared = SourceFiles.words(of: line[..<range.lowerBound]).last ?? ""
                return cases.contains(String(name)) && !others.contains(compared)
            }
        }
    }

    /// `if case .same = relation`, also as a further condition.
    private static func hasPattern(_ line: Substring, _ cases: Set<String>) -> Bool {
        line.ranges(of: "case .").contains { range in
            let rest = line[range.upperBound...]
            let pattern = rest.prefix { $0.isLetter }
            let behind = rest.dropFirst(pattern.count).drop { $0 != "=" && $0 != ":" }
            guard cases.contains(String(pattern)), behind.hasPrefix("= ") else { return false }
            return !others.contains(SourceFiles.words(of: behind).first ?? "")
        }
    }

    @Test("no code of sessions asks for one relation: a switch, or a property of the relation, names them all")
    func singleRelation() throws {
        let cases = try Self.relationCases()
        #expect(cases.count == StoredRelationNames.count && cases.isSuperset(of: StoredRelationNames.some))
        var texts = try SourceFiles.texts(below: "Sources/LanyardSessions")
        // The relation itself is told from a version.
        #expect(texts.removeValue(forKey: Self.relationFile) != nil)
        #expect(Self.singleRelations(in: texts, cases) == [], "switch on the relation, or give it a property")
    }

    /// What the source of `StoredRelation` is known to have.
    private enum StoredRelationNames {
        /// 18 relations; what they say of the session adds `session` and `removed`.
        static let count = 20
        static let some: Set<String> = ["foreign", "same", "sameDeletion", "deletingOtherSession", "ended", "removed"]
    }

    @Test(
        "a planted question for one relation is found",
        arguments: [
            "if relation(of: user) == .ended {", "guard let stored, relation != .foreign else {",
            "waiting.closesIntent = relation == .deletingOtherSession",
            "if let user, case .foreign = relation { return }",
            "guard case .sameDeletion = relation(of: user) else { return }",
            "let text = state.storedState == .removed ? a : b",
            "while case .newer = relation {", "case .stored(let user) where relation(of: user) == .sameDeletion:",
        ])
    func plantedRelation(_ line: String) throws {
        #expect(Self.singleRelations(in: ["a.swift": line], try Self.relationCases()) == ["a.swift:1"])
    }

    @Test(
        "a case of a switch, or another value's case of the same name, is none",
        arguments: [
            "case .foreign: recordForeignUser(user)", "case .same, .sameTokens: true",
            "case .ended: knownRecord.base == endedVersion",
            "if variant.session.state == .loggedOut {", "known.base == .absent", "// relation == .ended",
            "case .older: isOlder = true", "if case .refused = session {",
        ])
    func otherCase(_ line: String) throws {
        #expect(Self.singleRelations(in: ["a.swift": line], try Self.relationCases()) == [])
    }

    @Test("a planted default is found; a word in a comment, a text or a name is not")
    func plantedDefault() {
        let text = """
            switch stage {
            case .calling: break
            // default: nothing
                default: break
            }
            switch state {
            default : print("default: x")
            @unknown default: break
            }
            let defaultStage = Stage.calling
            read(default: 1)
            """
        #expect(Self.faults(in: ["a.swift": text]) == ["a.swift:4", "a.swift:7", "a.swift:8"])
    }

    @Test(
        "a planted pattern of wildcards and names is found, with a condition or not",
        arguments: [
            "case let same: return same", "case let other where other.isDue: other", "case var same: return same",
            "    case _: break", "case _ where isFetch: .savingRefresh", "case _", "case (_, _): nil",
            "case (_, let grant) where grant.isUsable: nil", "case let (session, call): nil", "case let same",
        ])
    func plantedCatchAll(_ line: String) {
        #expect(Self.faults(in: ["a.swift": line]) == ["a.swift:1"])
    }

    @Test(
        "a pattern that names a case in any of its parts is not found, nor the case of an enumeration",
        arguments: [
            "case .valid(let tokens, _): tokens", "case let .valid(tokens, _): tokens", "case let call?: call",
            "case nil: break", "case (.same, _): .proceed", "case (_, .active(let session)): session",
            "case (_, let call?): call", "case .some(.none), nil: break", "if case let same = state {",
            "case loggingIn(RetryState)", "case locking, reading", "// case _: nothing", "case (.valid, _) where x: y",
            "case 200..<300: true", "case \"a\": b", "case is Fault: c",
        ])
    func namedCase(_ line: String) {
        #expect(Self.faults(in: ["a.swift": line]) == [])
    }
}
