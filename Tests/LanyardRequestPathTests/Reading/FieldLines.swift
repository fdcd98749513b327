/// Field lines, each with its end, that are refused wherever they stand: in the head of a request and of a response, and in a trailer
/// section (http-requests.md 3.1 to 3.4).
enum FieldLines {
    static let refused = lineEnds + controls + names + folded

    private static let lineEnds = [
        "A: 1\n", "A: 1\rB: 2\r\n", "A: 1\r\r\n", "A\n: 1\r\n", "A:\n1\r\n", "A: 1\n\r\n", "\nA: 1\r\n", "\rA: 1\r\n",
        "A: 1\r\n\n", "A: 1\r\n\r", "A: 1\n\n", "A\r: 1\r\n", "A: 1\r \r\n", "A: 1\nB: 2\r\n", "A: \r1\r\n",
    ]

    /// All controls but HTAB, within a value, and some at its ends.
    private static let controls =
        (Array(UInt8(0)...0x1f) + [0x7f]).filter { $0 != 0x09 }
        .map { "A: x\(Character(Unicode.Scalar($0)))y\r\n" } + [
            "A: \u{0}\r\n", "A: x\u{7f}\r\n", "A:\u{b}x\r\n", "A: x\u{c}\r\n", "A: \u{8}\r\n",
        ]

    private static let names =
        [
            "A\r\n", "A 1\r\n", "no colon\r\n", ": 1\r\n", " : 1\r\n", "A : 1\r\n", "A\t: 1\r\n", "A\u{b}: 1\r\n",
            "\u{0}A: 1\r\n", "A\u{7f}: 1\r\n", "\u{e9}: 1\r\n", "A\u{80}: 1\r\n", "=: 1\r\n", "\"A\": 1\r\n",
            "A: 1\r\nB\r\n",
        ]
        + (UInt8.min...UInt8.max).filter { !isToken($0) && $0 != UInt8(ascii: ":") }
        .map { "A\(Character(Unicode.Scalar($0)))B: 1\r\n" }

    private static let folded = [
        "A: 1\r\n 2\r\n", "A: 1\r\n\t2\r\n", "A: 1\r\n \r\n", " A: 1\r\n", "\tA: 1\r\n", "A:\r\n 1\r\n", " \r\n",
    ]

    /// Whether a byte may stand in a name or a method (RFC 9110 §5.6.2).
    static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}
