import CNGHTTP2

/// Prepared lists of fields, as HPACK has them, and those that this side sends.
enum HTTP2FuzzBlocks {
    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    private static let get: [UInt8] = [0x82, 0x86, 0x84, 0x41, 1, 0x61]
    private static let post: [UInt8] = [0x83, 0x86, 0x84, 0x41, 1, 0x61]
    /// `x: aaa…`, which the table keeps.
    private static let large: [UInt8] = [0x40, 1, 0x78, 0x7f, 0xad, 1] + [UInt8](repeating: 0x61, count: 300)
    /// `content-length: 5`.
    private static let length: [UInt8] = [0x0f, 0x0d, 1, 0x35]
    /// `x: y`.
    private static let trailer: [UInt8] = [0x00, 1, 0x78, 1, 0x79]
    /// `X: y`, which HTTP/2 does not allow.
    private static let upper: [UInt8] = [0x00, 1, 0x58, 1, 0x79]
    /// The size of the table becomes 0, then 4,096.
    private static let sizes: [UInt8] = [0x20, 0x3f, 0xe1, 0x1f]
    private static let cookies: [UInt8] = [0x60, 3, 0x61, 0x3d, 0x62, 0x60, 3, 0x63, 0x3d, 0x64]
    /// `connection: x`.
    private static let connection: [UInt8] = [0x00] + text("connection") + text("x")

    static let requests: [[UInt8]] = [
        get, post, [0x82, 0x87, 0x84, 0x41, 1, 0x61], [0x02] + text("CONNECT") + [0x01] + text("a:1"),
        post + length, trailer, get + cookies, get + large, get + [UInt8](repeating: 0xbe, count: 20),
        // `authorization` and another field that no table may have.
        get + [0x1f, 0x08, 3, 0x61, 0x62, 0x63, 0x10, 1, 0x78, 1, 0x79],
        // `host` beside the same authority, and beside another.
        get + [0x66, 1, 0x61], get + [0x66, 1, 0x62], get + upper,
        trailer + get, sizes + get, get + [0x00] + text("te") + text("trailers"), get + connection,
        // A value with CR, a path with a blank, a method without a scheme and path.
        get + [0x00, 1, 0x78, 1, 0x0d], [0x82, 0x86, 0x04, 2, 0x2f, 0x20, 0x41, 1, 0x61], [0x82],
        get + [0x00] + text(":protocol") + text("websocket"), get + large + large + large,
    ]

    static let responses: [[UInt8]] = [
        [0x88], status("100"), [0x88] + length, [0x89], [0x8b], trailer,
        [0x88] + [0x00] + text("grpc-status") + text("0"),
        [0x88] + large, [0x88] + [UInt8](repeating: 0xbe, count: 20), status("101"), [0x88, 0x88], [0x88] + upper,
        trailer + [0x88], sizes + [0x88], status("401"), [0x88, 0x1f, 0x28, 1, 0x61], status("103") + trailer,
        [0x88] + connection, status("2x0"), [], [0x88] + large + large + large, [0x88, 0x00, 1, 0x78, 1, 0x0d],
    ]

    private static func text(_ text: StaticString) -> [UInt8] {
        [UInt8(text.utf8CodeUnitCount)] + UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }

    private static func status(_ code: StaticString) -> [UInt8] { [0x08] + text(code) }
}

/// A list of fields that this side sends.
enum HTTP2FuzzHead: Int, CaseIterable {
    case response, interim, trailers, request, upload, secret, otherSecret, longHead

    /// Fields of each head, whose text is the program's.
    private struct Fields: @unchecked Sendable {
        var all: [[nghttp2_nv]]
    }

    private static let fields = Fields(all: allCases.map { $0.list.map { field($0.0, $0.1, isSecret: $0.2) } })

    var vectors: [nghttp2_nv] { Self.fields.all[rawValue] }

    /// Calls `work` with the fields.
    func with<Result>(_ work: (UnsafeBufferPointer<nghttp2_nv>) -> Result) -> Result {
        vectors.withUnsafeBufferPointer(work)
    }

    private var list: [(StaticString, StaticString, Bool)] {
        let get: [(StaticString, StaticString, Bool)] = [
            (":method", "GET", false), (":scheme", "http", false), (":path", "/", false), (":authority", "a", false),
        ]
        return switch self {
        case .response: [(":status", "200", false), ("x-field", "value", false)]
        case .interim: [(":status", "103", false), ("link", "value", false)]
        case .trailers: [("grpc-status", "0", false)]
        case .request: get
        case .upload: [(":method", "POST", false)] + get.dropFirst()
        case .secret: get + [("authorization", Self.secretText, true)]
        case .otherSecret: get + [("authorization", Self.otherSecretText, true)]
        case .longHead: get + Array(repeating: ("x-long", Self.longText, true), count: 40)
        }
    }

    // Long enough for the codec's shim to keep their encoding.
    private static let secretText: StaticString = """
        Bearer 0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789
        """
    private static let otherSecretText: StaticString = """
        Bearer aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        """
    /// Forty of them are more than a frame.
    private static let longText: StaticString = """
        ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\
        ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\
        ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\
        ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
        """

    private static func field(_ name: StaticString, _ value: StaticString, isSecret: Bool) -> nghttp2_nv {
        nghttp2_nv(
            name: UnsafeMutablePointer(mutating: name.utf8Start),
            value: UnsafeMutablePointer(mutating: value.utf8Start),
            namelen: name.utf8CodeUnitCount, valuelen: value.utf8CodeUnitCount,
            flags: UInt8((isSecret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE).rawValue))
    }
}
