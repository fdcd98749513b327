import CYAML

/// The events of one YAML text. Owns libyaml's parser. The text is valid during `reading` only.
struct YAMLParser: ~Copyable {
    /// A copy of libyaml's event. Line and column count from 1.
    struct Event {
        enum Kind {
            case documentStart(hasDirectives: Bool)
            case documentEnd
            case streamStart
            case streamEnd
            case alias
            case scalar(String, isPlain: Bool)
            case sequenceStart
            case sequenceEnd
            case mappingStart
            case mappingEnd
        }

        var kind: Kind
        var line: Int
        var column: Int
        var hasAnchor = false
        var hasTag = false
    }

    /// A syntax error with libyaml's message. A type of its own, because the parser does not know the file's path:
    /// `ConfigurationError` adds it.
    struct ParseError: Error {
        var message: String
        var line: Int
        var column: Int
    }

    // Allocated on the heap: libyaml keeps pointers into the structure, so it must not move.
    private let parser: UnsafeMutablePointer<yaml_parser_t>

    /// Calls `body` with a parser of `text`, which must be UTF-8. Returns nil if there is no memory.
    static func reading<R, E: Error>(
        _ text: UnsafeBufferPointer<UInt8>, _ body: (inout YAMLParser) throws(E) -> R
    ) throws(E) -> R? {
        guard var parser = YAMLParser(text) else { return nil }
        return try body(&parser)
    }

    private init?(_ text: UnsafeBufferPointer<UInt8>) {
        let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
        guard yaml_parser_initialize(parser) == 1 else {
            parser.deallocate()
            return nil
        }
        yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
        yaml_parser_set_input_string(parser, text.baseAddress, text.count)
        self.parser = parser
    }

    deinit {
        yaml_parser_delete(parser)
        parser.deallocate()
    }

    /// The next event.
    ///
    /// - Throws: a syntax error. The parser cannot be used after it.
    mutating func next() throws(ParseError) -> Event {
        var raw = yaml_event_t()
        guard yaml_parser_parse(parser, &raw) == 1 else { throw parseError }
        defer { yaml_event_delete(&raw) }
        var event = Event(
            kind: .streamEnd, line: Int(raw.start_mark.line) + 1, column: Int(raw.start_mark.column) + 1)
        switch raw.type {
        case YAML_STREAM_START_EVENT: event.kind = .streamStart
        case YAML_DOCUMENT_START_EVENT:
            let start = raw.data.document_start
            event.kind = .documentStart(
                hasDirectives: start.version_directive != nil || start.tag_directives.start != start.tag_directives.end)
        case YAML_DOCUMENT_END_EVENT: event.kind = .documentEnd
        case YAML_ALIAS_EVENT: event.kind = .alias
        case YAML_SCALAR_EVENT:
            let scalar = raw.data.scalar
            let bytes = UnsafeBufferPointer(start: scalar.value, count: scalar.length)
            event.kind = .scalar(
                String(decoding: bytes, as: UTF8.self), isPlain: scalar.style == YAML_PLAIN_SCALAR_STYLE)
            (event.hasAnchor, event.hasTag) = (scalar.anchor != nil, scalar.tag != nil)
        case YAML_SEQUENCE_START_EVENT:
            let start = raw.data.sequence_start
            event.kind = .sequenceStart
            (event.hasAnchor, event.hasTag) = (start.anchor != nil, start.tag != nil)
        case YAML_SEQUENCE_END_EVENT: event.kind = .sequenceEnd
        case YAML_MAPPING_START_EVENT:
            let start = raw.data.mapping_start
            event.kind = .mappingStart
            (event.hasAnchor, event.hasTag) = (start.anchor != nil, start.tag != nil)
        case YAML_MAPPING_END_EVENT: event.kind = .mappingEnd
        default: event.kind = .streamEnd
        }
        return event
    }

    private var parseError: ParseError {
        let said = parser.pointee.problem.map { String(cString: $0) } ?? "out of memory"
        let context = parser.pointee.context.map { " " + String(cString: $0) } ?? ""
        // For an unreadable character libyaml gives an offset and no position. The parser's own position is still at the start.
        let mark = parser.pointee.error == YAML_READER_ERROR ? parser.pointee.mark : parser.pointee.problem_mark
        return ParseError(message: said + context, line: Int(mark.line) + 1, column: Int(mark.column) + 1)
    }
}
