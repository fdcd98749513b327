/// Reads one YAML text as a tree, more strictly than YAML, so that a file has one meaning.
///
/// One document, UTF-8, no tabs, no anchors, aliases, tags or directives, no duplicate keys, at most `depthMax` levels of mappings and
/// lists.
struct ConfigurationDocument {
    /// Levels of mappings and lists. A configuration needs five.
    static let depthMax = 16
    /// Bytes of a file, enough for ten thousand users with a route each. A larger file is not a configuration.
    static let bytesMax = 16 << 20

    private let path: String
    private(set) var diagnostics: [ConfigurationError] = []

    /// The tree and all errors in it. Text that is not YAML gives no tree and one error.
    static func read(_ text: [UInt8], path: String) -> (tree: ConfigurationNode?, diagnostics: [ConfigurationError]) {
        var document = ConfigurationDocument(path: path)
        guard document.checkEncoding(text) else { return (nil, document.diagnostics) }
        // libyaml counts the byte order mark as a column of the first line, so the second line would seem to be indented less.
        let text = text.starts(with: byteOrderMark) ? Array(text.dropFirst(byteOrderMark.count)) : text
        guard document.checkCharacters(text) else { return (nil, document.diagnostics) }
        let tree = text.withUnsafeBufferPointer { bytes in
            YAMLParser.reading(bytes) { parser in document.root(&parser) } ?? nil
        }
        return (tree, document.diagnostics)
    }

    private init(path: String) { self.path = path }

    // MARK: - Bytes

    private static let byteOrderMark: [UInt8] = [0xef, 0xbb, 0xbf]

    /// Refuses UTF-16 and UTF-32. Editors on Windows write UTF-16. Such text begins with a byte order mark or has a zero byte in its first
    /// character.
    private mutating func checkEncoding(_ text: [UInt8]) -> Bool {
        let start = text.prefix(4) + [UInt8](repeating: 1, count: max(0, 4 - text.count))
        let name: String
        switch (start[0], start[1], start[2], start[3]) {
        case (0xff, 0xfe, 0, 0), (0, 0, 0xfe, 0xff), (0, 0, 0, 1...), (1..., 0, 0, 0): name = "UTF-32"
        case (0xff, 0xfe, _, _), (0xfe, 0xff, _, _), (0, 1..., _, _), (1..., 0, _, _): name = "UTF-16"
        default: return true
        }
        let place = ConfigurationPlace.file(path: path, line: 1, column: 1)
        diagnostics.append(.init(at: place, "\(name), not UTF-8", remedy: "save the file as UTF-8"))
        return false
    }

    /// Refuses bytes that are not UTF-8, tabs and control characters.
    private mutating func checkCharacters(_ text: [UInt8]) -> Bool {
        if String(validating: text, as: UTF8.self) == nil {
            let place = self.place(ofByte: Self.firstNotUTF8(text), in: text)
            diagnostics.append(.init(at: place, "not UTF-8", remedy: "save the file as UTF-8"))
            return false
        }
        if let tab = text.firstIndex(of: 9) {
            diagnostics.append(
                .init(
                    at: place(ofByte: tab, in: text), "a tab",
                    remedy: "use spaces (inside double quotes \\t stands for one)"))
            return false
        }
        if let control = text.firstIndex(where: { $0 < 32 && $0 != 10 && $0 != 13 || $0 == 127 }) {
            diagnostics.append(
                .init(at: place(ofByte: control, in: text), "a control character", remedy: "remove it"))
            return false
        }
        return true
    }

    private static func firstNotUTF8(_ text: [UInt8]) -> Int {
        var end = 0
        while end < text.count {
            if text[end] < 128 {
                end += 1
                continue
            }
            let length = (2...4).first { length in
                end + length <= text.count && String(validating: text[end..<end + length], as: UTF8.self) != nil
            }
            guard let length else { return end }
            end += length
        }
        return end
    }

    private func place(ofByte offset: Int, in text: [UInt8]) -> ConfigurationPlace {
        let before = text[0..<min(offset, text.count)]
        let line = before.count { $0 == 10 } + 1
        let column = before.count - ((before.lastIndex(of: 10)).map { $0 + 1 } ?? 0) + 1
        return .file(path: path, line: line, column: column)
    }

    // MARK: - Events

    private mutating func root(_ parser: inout YAMLParser) -> ConfigurationNode? {
        do {
            var tree: ConfigurationNode?
            while true {
                let event = try parser.next()
                switch event.kind {
                case .streamEnd: return tree.flatMap { Self.isEmptyTree($0) ? nil : $0 } ?? emptyTree
                case .documentStart(let hasDirectives):
                    if hasDirectives { report(event, "a YAML directive", remedy: "remove the line with %") }
                    guard tree == nil else {
                        report(event, "a second document", remedy: "keep one document and remove the line with ---")
                        return tree
                    }
                    tree = try node(try parser.next(), &parser, depth: 0)
                default: break
                }
            }
        } catch {
            let place = ConfigurationPlace.file(path: path, line: error.line, column: error.column)
            diagnostics.append(
                .init(at: place, "not YAML: \(error.message)", remedy: "check indentation, quotes and brackets here"))
            return nil
        }
    }

    private var emptyTree: ConfigurationNode { ConfigurationNode(.mapping([]), at: .wholeFile(path: path)) }

    /// Whether the tree is `{}` or YAML's null, which count as an empty file.
    private static func isEmptyTree(_ tree: ConfigurationNode) -> Bool {
        switch tree.content {
        case .mapping(let entries): entries.isEmpty
        case .scalar(let text): ["", "~", "null", "Null", "NULL"].contains(text)
        default: false
        }
    }

    /// Reads the node that starts with `event`.
    private mutating func node(
        _ event: YAMLParser.Event, _ parser: inout YAMLParser, depth: Int
    ) throws(YAMLParser.ParseError) -> ConfigurationNode {
        if event.hasAnchor { report(event, "an anchor (&)", remedy: "write the value out where it is used") }
        if event.hasTag { report(event, "a tag (!)", remedy: "remove it; each key knows its type") }
        switch event.kind {
        case .scalar(let text, let isPlain):
            return ConfigurationNode(.scalar(text), at: place(of: event), isPlain: isPlain)
        case .sequenceStart: return try sequence(event, &parser, depth: depth + 1)
        case .mappingStart: return try mapping(event, &parser, depth: depth + 1)
        default:
            report(event, "an alias (*)", remedy: "write the value out, or quote a text that begins with *")
            return ConfigurationNode(.invalid, at: place(of: event))
        }
    }

    private mutating func sequence(
        _ start: YAMLParser.Event, _ parser: inout YAMLParser, depth: Int
    ) throws(YAMLParser.ParseError) -> ConfigurationNode {
        try checkDepth(start, depth)
        var elements: [ConfigurationNode] = []
        while true {
            let event = try parser.next()
            if case .sequenceEnd = event.kind { return ConfigurationNode(.sequence(elements), at: place(of: start)) }
            elements.append(try node(event, &parser, depth: depth))
        }
    }

    private mutating func mapping(
        _ start: YAMLParser.Event, _ parser: inout YAMLParser, depth: Int
    ) throws(YAMLParser.ParseError) -> ConfigurationNode {
        try checkDepth(start, depth)
        var entries: [ConfigurationNode.Entry] = []
        var lines: [String: Int] = [:]
        var unread: ConfigurationNode.Entry?
        while true {
            let event = try parser.next()
            if case .mappingEnd = event.kind {
                return ConfigurationNode(.mapping(entries + (unread.map { [$0] } ?? [])), at: place(of: start))
            }
            let key = try node(event, &parser, depth: depth)
            let value = try node(try parser.next(), &parser, depth: depth)
            guard let name = key.text else {
                if key.content != .invalid { report(event, "a key that is \(key.shape)", remedy: "use a plain name") }
                unread = .unread(at: key.place)
                continue
            }
            if let first = lines[name] {
                report(
                    event, "duplicate key \(ConfigurationText.quoted(name)), first on line \(first)",
                    remedy: "keep one of them")
                continue
            }
            lines[name] = event.line
            entries.append(.init(key: name, place: key.place, value: value, isPlain: key.isPlain))
        }
    }

    private func checkDepth(_ event: YAMLParser.Event, _ depth: Int) throws(YAMLParser.ParseError) {
        guard depth > Self.depthMax else { return }
        throw YAMLParser.ParseError(
            message: "nested more than \(Self.depthMax) deep", line: event.line, column: event.column)
    }

    private mutating func report(_ event: YAMLParser.Event, _ message: String, remedy: String) {
        diagnostics.append(.init(at: place(of: event), message, remedy: remedy))
    }

    private func place(of event: YAMLParser.Event) -> ConfigurationPlace {
        .file(path: path, line: event.line, column: event.column)
    }
}
