import TestSupport
import Testing

/// In these folders each switch names its cases: a relation, a stage, a wait or a state that is added must be decided in
/// each of them.
@Suite struct ExhaustiveSwitchTests {
    private static let exchange = "Sources/LanyardRequestPath/Exchange"
    private static let folders = [
        "Sources/LanyardSessions/Coordination", "Sources/LanyardSessions/StateMachine", "\(exchange)/Client",
        "\(exchange)/Replay", "\(exchange)/Tunnel",
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
        #expect(texts.count >= 4)
        #expect(Self.faults(in: texts) == [], "name the cases")
    }

    @Test("no switch of the exchange's machine has a catch-all")
    func exchangeMachine() throws {
        let path = "\(Self.exchange)/Exchange.swift"
        #expect(Self.faults(in: [path: try SourceFiles.text(of: path)]) == [], "name the cases")
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
