import TestSupport
import Testing

/// What belongs to a queue checks it, or names the owner that does (architecture.md 1.4).
@Suite struct HomeQueueTests {
    private static let check = "assertIsCurrent()"

    /// A comment and the declaration behind it.
    private struct Declaration {
        let line: Int
        let comment: String
        /// Up to the line that ends it.
        let text: String
    }

    private static func declarations(in text: String) -> [Declaration] {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        var found: [Declaration] = []
        var comment: [Substring] = []
        for (index, line) in lines.enumerated() {
            let code = line.drop { $0 == " " }
            if code.hasPrefix("///") {
                comment.append(code.dropFirst(3))
            } else if !comment.isEmpty {
                let indent = line.prefix { $0 == " " }
                let body = lines[index...].prefix { $0 != indent + "}" }
                found.append(
                    Declaration(
                        line: index + 1, comment: comment.joined(), text: body.joined(separator: "\n")))
                comment = []
            }
        }
        return found
    }

    /// A sentence says that the declaration belongs to a queue, and neither it nor the code says who checks that.
    private static func isUnchecked(_ declaration: Declaration, in text: String) -> Bool {
        let sentences = declaration.comment.replacing("\n", with: " ").split(separator: ". ")
        let isMeant = sentences.contains { sentence in
            let words = SourceFiles.words(of: sentence)
            guard let place = words.firstIndex(where: { ["belongs", "Belongs", "belong"].contains($0) }) else {
                return false
            }
            let rest = words[place...]
            return rest.dropFirst().first == "to" && !rest.allSatisfy { !["queue", "loop"].contains($0) }
        }
        guard isMeant else { return false }
        let words = SourceFiles.words(of: declaration.comment[...])
        if words.contains(where: { ["check", "checks", "switch", "switches"].contains($0) }) { return false }
        let isType = !SourceFiles.words(of: declaration.text.prefix { $0 != "\n" })
            .allSatisfy { !["class", "struct", "enum"].contains($0) }
        return !SourceFiles.holds(isType ? declaration.text : text, check)
    }

    /// The lines of declarations without a check, and of a watcher's events that do not begin with one.
    private static func faults(in texts: [String: String]) -> [String] {
        texts.sorted { $0.key < $1.key }.flatMap { path, text in
            declarations(in: text).compactMap { isUnchecked($0, in: text) ? "\(path):\($0.line)" : nil }
                + eventsWithoutCheck(in: text).map { "\(path):\($0)" }
        }
    }

    private static func eventsWithoutCheck(in text: String) -> [Int] {
        let lines = SourceFiles.codeLines(of: text)
        return lines.indices.compactMap { place in
            let words = SourceFiles.words(of: lines[place].text)
            guard words.contains("override"), let function = words.firstIndex(of: "func"),
                ["ready", "due", "resume"].contains(words[function + 1])
            else { return nil }
            let first = place + 1 < lines.count ? String(lines[place + 1].text) : ""
            return SourceFiles.holds(first, check) ? nil : lines[place].number
        }
    }

    @Test("what belongs to a queue checks it, or names who does")
    func homeQueues() throws {
        let texts = try SourceFiles.texts(below: "Sources")
        #expect(texts.count > 100)
        #expect(Self.faults(in: texts) == [], "begin with loop.assertIsCurrent(), or name the owner that checks")
    }

    @Test(
        "a planted type or property without a check is found",
        arguments: [
            ("/// One thing. Belongs to the queue of\n/// its loop.\nstruct Thing {\n    var one = 1\n}", 3),
            ("/// All state belongs to the loop's queue.\nfinal class Thing {\n}\nloop.assertIsCurrent()", 2),
            ("struct Thing {\n    /// Belongs to its queue.\n    var one = 1\n}", 3),
            ("final class Thing: Watcher {\n    override func due(_ deadline: Deadline) { work() }\n}", 2),
            ("final class Thing: Watcher {\n    package override func resume() {\n        work()\n    }\n}", 2),
        ])
    func planted(_ text: String, _ line: Int) {
        #expect(Self.faults(in: ["a.swift": text]) == ["a.swift:\(line)"])
    }

    @Test(
        "a type with a check, or with an owner that checks, is not found",
        arguments: [
            "/// Belongs to the loop's queue.\nfinal class Thing {\n    func work() { loop.assertIsCurrent() }\n}",
            "/// Belongs to its connection, which checks the queue.\nstruct Thing {\n    var one = 1\n}",
            "/// The list that a connection belongs to. The queue is another thing.\nstruct Thing {\n}",
            "final class Thing: Watcher {\n    override func resume() {\n        loop.assertIsCurrent()\n    }\n}",
        ])
    func checked(_ text: String) {
        #expect(Self.faults(in: ["a.swift": text]) == [])
    }
}
