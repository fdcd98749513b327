import TestSupport
import Testing

/// A closure or a partner that an object gets after its making may be missing when it is needed. So there is a reason for each
/// (architecture-control.md 7.9).
@Suite struct LateBindingTests {
    /// The lines of properties of classes that get a closure, or an optional partner, late, without a reason in the comment.
    private static func faults(in texts: [String: String]) -> [String] {
        texts.sorted { $0.key < $1.key }.flatMap { path, text in
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
            return lines.indices.compactMap { index -> String? in
                guard isLate(lines[index]), owner(of: index, in: lines).contains("class") else { return nil }
                let comment = lines[..<index].reversed().prefix { $0.drop { $0 == " " }.hasPrefix("///") }
                let hasReason = comment.contains {
                    SourceFiles.words(of: $0).contains { $0 == "because" || $0 == "until" }
                }
                return hasReason ? nil : "\(path):\(index + 1)"
            }
        }
    }

    /// A variable of the type of a function, or a guarded place for one, or for a partner that is not there yet.
    private static func isLate(_ line: Substring) -> Bool {
        let code = line.drop { $0 == " " }
        guard !code.hasPrefix("//") else { return false }
        if let guarded = code.firstRange(of: "= Guarded<") {
            let rest = code[guarded.upperBound...]
            return rest.contains("->") || rest.hasPrefix("(any ") && rest.hasSuffix("?>(nil)")
        }
        let type = code.prefix { $0 != "=" }
        let words = SourceFiles.words(of: type)
        return words.contains("var") && type.contains("->") && !type.contains("{") && !type.contains(": [")
            && !words.contains("func")
    }

    /// The words of the line that opens what the line stands in.
    private static func owner(of index: Int, in lines: [Substring]) -> [Substring] {
        let indent = lines[index].prefix { $0 == " " }.count
        let opening = lines[..<index].last { line in
            !line.isEmpty && line.prefix { $0 == " " }.count < indent && line.drop { $0 == " " }.first != "/"
        }
        return opening.map { SourceFiles.words(of: $0) } ?? []
    }

    @Test("what an object gets after its making has a reason")
    func reasons() throws {
        let texts = try SourceFiles.texts(below: "Sources")
        #expect(texts.count > 100)
        #expect(Self.faults(in: texts) == [], "give it to the init, or say in its comment: late because …")
    }

    @Test(
        "a planted closure that is set late is found",
        arguments: [
            "    var onLimit: () -> Void = {}", "    private var report: (@Sendable (Int) -> Void)?",
            "    private let target = Guarded<(any TokenSource)?>(nil)",
            "    private let whenNone = Guarded<(@Sendable () -> Void)?>(nil)",
        ])
    func planted(_ line: String) {
        let late = "final class Thing {\n    /// Set before the first call.\n\(line)\n}"
        #expect(Self.faults(in: ["a.swift": late]) == ["a.swift:3"])
        let reason = "    /// Set late because the caller is made of this."
        #expect(Self.faults(in: ["a.swift": "final class Thing {\n\(reason)\n\(line)\n}"]) == [])
        #expect(Self.faults(in: ["a.swift": "struct Sources {\n\(line)\n}"]) == [])
    }

    @Test(
        "a constant, a local variable and a computed property are not found",
        arguments: [
            "    let report: () -> Void", "    func work() {\n        var reply: () -> Void = {}\n    }",
            "    var action: () -> Void { {} }", "    func make() -> () -> Void { {} }",
            "    private let calls = Guarded<[Int]>([])",
        ])
    func constant(_ line: String) {
        #expect(Self.faults(in: ["a.swift": "final class Thing {\n\(line)\n}"]) == [])
    }
}
