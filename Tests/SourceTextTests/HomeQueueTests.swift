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
        guard QueueDoors.belongsToQueue(declaration.comment), !QueueDoors.namesChecker(declaration.comment) else {
            return false
        }
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

    /// The loop itself and its parts are what checks. LanyardIdentity is not covered.
    private static let otherFolders = ["Sources/LanyardFoundations/EventLoop/", "Sources/LanyardIdentity/"]

    @Test("each function of such a class that another file calls checks the queue, or says from where it may be called")
    func eachDoor() throws {
        let texts = try SourceFiles.texts(below: "Sources").filter { path, _ in
            !Self.otherFolders.contains(where: path.hasPrefix)
        }
        #expect(QueueDoors.unchecked(in: texts) == [], "begin with loop.assertIsCurrent(), or say \"From anywhere.\"")
    }

    private static let caller = "thing.work()"

    /// A class that belongs to a queue, with these functions.
    private static func thing(_ functions: String) -> String {
        "/// Belongs to the loop's queue.\nfinal class Thing {\n\(functions)\n}\n"
    }

    @Test(
        "a planted door without a check is found, also beside one with a check and in another file",
        arguments: [
            thing("    func work() { count += 1 }"),
            thing("    func work() {\n        loop.post { }\n        count += 1\n    }"),
            thing("    func work() { other() }\n    private func other() { count += 1 }"),
            thing("    func rest() { loop.assertIsCurrent() }")
                + "extension Thing {\n    func work() { count += 1 }\n}",
        ])
    func plantedDoor(_ text: String) {
        #expect(QueueDoors.unchecked(in: ["a.swift": text, "b.swift": Self.caller]).count == 1)
        // Not called from another file, or of a type whose owner checks.
        #expect(QueueDoors.unchecked(in: ["a.swift": text]) == [])
        let owned = text.replacing("queue.", with: "queue, which its owner checks.")
        #expect(QueueDoors.unchecked(in: ["a.swift": owned, "b.swift": Self.caller]) == [])
    }

    @Test(
        "a door that checks, that may be called from anywhere, or that only calls such a one, is not found",
        arguments: [
            thing("    func work() {\n        loop.assertIsCurrent()\n        count += 1\n    }"),
            thing("    /// From anywhere.\n    func work() { count.add(1) }"),
            thing("    func work() { loop.post { [self] in count += 1 } }"),
            thing("    func work() { other() }\n    private func other() { loop.assertIsCurrent() }"),
            thing("    private func work() { count += 1 }"),
        ])
    func checkedDoor(_ text: String) {
        #expect(QueueDoors.unchecked(in: ["a.swift": text, "b.swift": Self.caller]) == [])
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
