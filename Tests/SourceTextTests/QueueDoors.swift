/// The functions by which other files call a class that belongs to a queue, and which of them do not check that queue
/// (architecture.md 1.4).
enum QueueDoors {
    /// A function of a type, which is declared one level inside of it.
    private struct Function {
        let type: String
        let name: Substring
        let path: String
        let line: Int
        let comment: String
        /// Other files can call it.
        let isVisible: Bool
        /// Its line and those up to its end.
        let text: [Substring]

        /// The statements of its body, each up to the end of its first line.
        var statements: [Substring] {
            guard text.count > 1 else {
                return [text[0].drop { $0 != "{" }.dropFirst().drop { $0 == " " }]
            }
            // The head may have several lines.
            let body = text.drop { !$0.hasSuffix("{") }.dropFirst().dropLast()
            return body.compactMap { line in
                let code = line.drop { $0 == " " }
                let isFirst = line.count - code.count == 8 && !code.hasPrefix("}") && !code.hasPrefix(")")
                return isFirst && !code.hasPrefix("//") ? code : nil
            }
        }

        /// It looks at its queue, or its comment says from where it may be called.
        var isCheckedItself: Bool {
            SourceFiles.holds(text.joined(separator: "\n"), "assertIsCurrent()")
                || phrases.contains { SourceFiles.holds(comment, $0) }
        }
    }

    private static let typeWords: Set<Substring> = ["class", "extension", "struct", "enum"]

    /// In a comment: other queues may call the function.
    private static let phrases = [
        "From anywhere", "from anywhere", "rom any thread", "rom any queue", "on any thread", "on any queue",
        "Blocks the calling thread", "Not from the loop's queue", "before the loop starts",
    ]

    /// The path and line of each function that other files call, that does not check its queue, and that does not only
    /// call one that does.
    static func unchecked(in texts: [String: String]) -> [String] {
        var functions: [Function] = []
        var classes: Set<String> = []
        var files: [String: Set<String>] = [:]
        for (path, text) in texts {
            let found = parse(text, path)
            functions += found.functions
            classes.formUnion(found.classes)
            for type in found.declared { files[type, default: []].insert(path) }
        }
        functions.removeAll { !classes.contains($0.type) }
        var safe: Set<String> = []
        // Twice: a function may call one that only calls another one.
        for _ in 0..<2 {
            for function in functions where function.isCheckedItself || isDelegate(function, safe) {
                safe.insert("\(function.type).\(function.name)")
            }
        }
        return functions.compactMap { function in
            guard function.isVisible, !function.isCheckedItself, !isDelegate(function, safe) else { return nil }
            let isCalled = texts.contains { path, text in
                files[function.type]?.contains(path) == false
                    && (SourceFiles.holds(text, ".\(function.name)(") || SourceFiles.holds(text, ".\(function.name) {"))
            }
            return isCalled ? "\(function.path):\(function.line) \(function.name)" : nil
        }.sorted()
    }

    /// Its only statement posts the work, or calls a function of the type that checks.
    private static func isDelegate(_ function: Function, _ safe: Set<String>) -> Bool {
        let statements = function.statements
        guard statements.count == 1 else { return false }
        if SourceFiles.holds(String(statements[0]), "loop.post {") { return true }
        let words = SourceFiles.words(of: statements[0]).drop { ["return", "_"].contains($0) }
        return words.first.map { safe.contains("\(function.type).\($0)") } ?? false
    }

    private static func parse(
        _ text: String, _ path: String
    ) -> (functions: [Function], classes: Set<String>, declared: Set<String>) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        var (functions, classes, declared) = ([Function](), Set<String>(), Set<String>())
        var type: String?
        var comment: [Substring] = []
        for (index, line) in lines.enumerated() {
            let code = line.drop { $0 == " " }
            let indent = line.count - code.count
            if code.hasPrefix("///") {
                comment.append(code.dropFirst(3))
                continue
            }
            if code.hasPrefix("@") { continue }
            defer { comment = [] }
            guard indent == 0 || indent == 4, !code.isEmpty else { continue }
            if line == "}" { type = nil }
            let words = SourceFiles.words(of: code)
            if indent == 0, let kind = words.firstIndex(where: typeWords.contains), kind + 1 < words.count {
                let name = String(words[kind + 1])
                type = name
                declared.insert(name)
                let all = comment.joined()
                if words[kind] == "class", belongsToQueue(all), !namesChecker(all) { classes.insert(name) }
            } else if indent == 4, let type, let place = words.firstIndex(of: "func"), place + 1 < words.count {
                let end = code.hasSuffix("}") ? index : lines[index...].firstIndex { $0 == "    }" } ?? index
                functions.append(
                    Function(
                        type: type, name: words[place + 1], path: path, line: index + 1, comment: comment.joined(),
                        isVisible: words[..<place].allSatisfy { !["private", "fileprivate", "static"].contains($0) },
                        text: Array(lines[index...end])))
            }
        }
        return (functions, classes, declared)
    }

    /// A sentence of the comment says that the declaration belongs to a queue.
    static func belongsToQueue(_ comment: String) -> Bool {
        comment.replacing("\n", with: " ").split(separator: ". ").contains { sentence in
            let words = SourceFiles.words(of: sentence)
            guard let place = words.firstIndex(where: { ["belongs", "Belongs", "belong"].contains($0) }) else {
                return false
            }
            let rest = words[place...]
            return rest.dropFirst().first == "to" && !rest.allSatisfy { !["queue", "loop"].contains($0) }
        }
    }

    /// The comment names who checks the queue.
    static func namesChecker(_ comment: String) -> Bool {
        SourceFiles.words(of: comment[...]).contains { ["check", "checks", "switch", "switches"].contains($0) }
    }
}
