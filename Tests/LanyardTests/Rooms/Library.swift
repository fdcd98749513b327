/// The library's files as the room test sees them: what each room declares, and what it mentions.
struct Library {
    struct File {
        /// nil: the file stands beside the rooms (Lanyard.swift) and knows them all.
        var room: String?
        var path: String
        var text: SwiftText

        init(room: String?, path: String, source: String) {
            self.room = room
            self.path = path
            text = SwiftText(source)
        }
    }

    private static let typeKeywords: Set<Substring> = ["struct", "class", "enum", "actor", "protocol", "typealias"]
    /// Behind `class`, these make a member of a class rather than a class.
    private static let memberKeywords: Set<Substring> = ["func", "var", "let", "subscript", "override"]
    private static let looseKeywords: Set<Substring> = ["func", "var", "let"]

    let files: [File]
    /// Rooms by the top-level type that they declare.
    private var home: [Substring: String] = [:]
    private var declaredTwice: [String] = []
    /// Names of nested types by room: they hide a top-level type of another room.
    private var nested: [String: Set<Substring>] = [:]

    init(_ files: [File]) {
        self.files = files
        for file in files {
            for (name, word) in Self.types(in: file.text) {
                let room = file.room ?? ""
                if word.depth > 0 {
                    nested[room, default: []].insert(name)
                } else if home[name] == nil {
                    home[name] = room
                } else {
                    declaredTwice.append("\(file.path):\(word.line): \(name) is declared twice")
                }
            }
        }
    }

    /// Every broken rule, one a line: `path:line: what`.
    var violations: [String] { declaredTwice + files.flatMap(violations(in:)) }

    private func violations(in file: File) -> [String] {
        var found: [String] = []
        if !file.text.isBalanced { found.append("\(file.path):1: brackets do not close, so the file was misread") }
        guard let room = file.room else { return found }
        guard let permissions = RoomTable.rooms[room] else { return found + ["\(file.path):1: no such room: \(room)"] }
        let words = file.text.words
        for (index, word) in words.enumerated() {
            let previous = index > 0 ? words[index - 1].text : ""
            if previous == "import" || (index > 1 && words[index - 2].text == "import" && word.isMember) {
                if let fault = importFault(of: words, at: index, in: room) {
                    found.append("\(file.path):\(word.line): \(fault)")
                }
            } else if word.depth == 0, Self.looseKeywords.contains(word.text), !word.isMember {
                found.append("\(file.path):\(word.line): \(word.text) outside a type")
            } else if let fault = mentionFault(of: word, after: previous, in: room, permissions) {
                found.append("\(file.path):\(word.line): \(fault)")
            }
        }
        return found
    }

    private func mentionFault(
        of word: SwiftText.Word, after previous: Substring, in room: String,
        _ permissions: [String: RoomTable.Permission]
    ) -> String? {
        guard !word.isMember || previous == "Lanyard", let other = home[word.text], other != room else { return nil }
        if nested[room]?.contains(word.text) == true { return nil }
        switch permissions[other] {
        case .everything: return nil
        case .settings where word.text.hasSuffix("Settings"): return nil
        case .types(let names) where closure(of: names, in: other).contains(word.text): return nil
        default: return "\(room) mentions \(word.text) of \(other.isEmpty ? "Lanyard.swift" : other)"
        }
    }

    private func importFault(of words: [SwiftText.Word], at index: Int, in room: String) -> String? {
        let module = words[index]
        if module.isMember {
            guard words[index - 1].text == "CLanyard", let rooms = RoomTable.doors[String(module.text)] else {
                return nil
            }
            return rooms.contains(room) ? nil : "\(room) opens CLanyard.\(module.text)"
        }
        guard module.text.hasPrefix("Foundation") || module.text == "_FoundationICU" else { return nil }
        if !RoomTable.fenced.contains(room) && module.text == "FoundationEssentials" { return nil }
        return "\(room) imports \(module.text)"
    }

    /// `names` and every type of the room that the files declaring them mention, and so on.
    private func closure(of names: [String], in room: String) -> Set<Substring> {
        var known = Set<Substring>()
        var open = names.map { Substring($0) }
        while let name = open.popLast() {
            guard home[name] == room, known.insert(name).inserted else { continue }
            for file in files where file.room == room && Self.types(in: file.text).contains(where: { $0.0 == name }) {
                open += file.text.words.filter { !$0.isMember }.map(\.text)
            }
        }
        return known
    }

    /// Declared types with the word that names them.
    private static func types(in text: SwiftText) -> [(Substring, SwiftText.Word)] {
        zip(text.words, text.words.dropFirst()).compactMap { keyword, name in
            guard typeKeywords.contains(keyword.text), !keyword.isMember, !memberKeywords.contains(name.text) else {
                return nil
            }
            return (name.text, name)
        }
    }
}
