import LanyardRequestPath

/// What the field lines of a head say of its length, counted anew without the reader's own classification of names.
struct FramingFacts {
    private(set) var hosts = 0
    private var lengths = 0
    private var length: Int?
    private var codings = 0
    private var isChunked = false

    init(_ table: FieldTable, _ bytes: Bytes) {
        for index in 0..<table.count {
            let name = table.name(index, in: bytes)
            let value = table.value(index, in: bytes)
            if name.equals(lowered: "host") { hosts += 1 }
            if name.equals(lowered: "content-length") {
                lengths += 1
                length = value.count > 0 && value.allSatisfy(ByteClass.isDigit) ? value.decimal : nil
            }
            if name.equals(lowered: "transfer-encoding") {
                codings += 1
                isChunked = value.equals(lowered: "chunked")
            }
        }
    }

    /// The one framing that these lines allow; nil if a head with them must be refused.
    func framing(_ minorVersion: Int) -> BodyFraming? {
        switch (lengths, codings) {
        case (0, 0): return BodyFraming.none
        case (1, 0): return length.map { .length($0) }
        case (0, 1): return isChunked && minorVersion > 0 ? .chunked : nil
        default: return nil
        }
    }
}
