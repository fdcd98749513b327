import TestSupport
import Testing

/// In these folders each switch names its cases: a relation, a stage or a state that is added must be decided in each of
/// them.
@Suite struct ExhaustiveSwitchTests {
    private static let folders = ["Sources/LanyardSessions/Coordination", "Sources/LanyardSessions/StateMachine"]

    /// The lines that begin a `default` of a switch.
    private static func faults(in texts: [String: String]) -> [String] {
        texts.sorted { $0.key < $1.key }.flatMap { path, text in
            SourceFiles.codeLines(of: text).compactMap { number, line in
                let words = SourceFiles.words(of: line)
                let code = line.drop { $0 == " " || $0 == "@" }
                let isDefault =
                    words.first == "default" && code.dropFirst("default".count).drop { $0 == " " }.first == ":"
                    || words.prefix(2) == ["unknown", "default"]
                return isDefault ? "\(path):\(number)" : nil
            }
        }
    }

    @Test("no switch of the session's machines has a default", arguments: folders)
    func noDefault(_ folder: String) throws {
        let texts = try SourceFiles.texts(below: folder)
        #expect(texts.count > 5)
        #expect(Self.faults(in: texts) == [], "name the cases")
    }

    @Test("a planted default is found; a word in a comment, a text or a name is not")
    func planted() {
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
}
