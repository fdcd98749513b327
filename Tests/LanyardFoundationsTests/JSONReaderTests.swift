import Testing

@testable import LanyardFoundations

@Suite("JSON on bytes")
struct JSONReaderTests {
    /// The tokens as words, or the fault's kind as the last one.
    private func tokens(_ text: [UInt8], depthMax: Int = 32) -> [String] {
        text.withUnsafeBytes { bytes in
            var reader = JSONReader(bytes, depthMax: depthMax)
            var words: [String] = []
            do throws(JSONError) {
                while true {
                    let token = try reader.next()
                    words.append(Self.word(token, bytes))
                    if token == .end { return words }
                }
            } catch {
                return words + ["!\(error.kind)"]
            }
        }
    }

    private func tokens(_ text: String, depthMax: Int = 32) -> [String] { tokens(Array(text.utf8), depthMax: depthMax) }

    private static func word(_ token: JSONReader.Token, _ bytes: UnsafeRawBufferPointer) -> String {
        let decoded: (JSONReader.Text) -> String = { text in
            var characters: [UInt8] = []
            JSONText.decode(text, of: bytes) { characters.append($0) }
            return String(decoding: characters, as: UTF8.self)
        }
        return switch token {
        case .objectStart: "{"
        case .objectEnd: "}"
        case .arrayStart: "["
        case .arrayEnd: "]"
        case .name(let text): decoded(text) + ":"
        case .string(let text): "'" + decoded(text)
        case .number(let range): String(decoding: bytes[range], as: UTF8.self)
        case .bool(let value): "\(value)"
        case .null: "null"
        case .end: "."
        }
    }

    @Test("a text comes as its tokens")
    func reads() {
        let text = " {\"a\" : [1,-2.5e+3, true,false,null,{},[]] ,\r\n\t\"b\":\"x\", \"\":{\"a\":0}} \n"
        #expect(
            tokens(text) == [
                "{", "a:", "[", "1", "-2.5e+3", "true", "false", "null", "{", "}", "[", "]", "]", "b:", "'x", ":", "{",
                "a:", "0", "}", "}", ".",
            ])
        for scalar in ["0", "-0", "1E9", "null", "\"\""] { #expect(tokens(scalar).last == ".") }
    }

    @Test("escapes and UTF-8 are undone")
    func characters() {
        #expect(tokens(#""\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac\ud83d\udc22é€🐢""#)[0] == "'\"\\/\u{8}\u{c}\n\r\tAé€🐢é€🐢")
    }

    @Test(
        "what is not JSON is refused, and never read past its fault",
        arguments: [
            ("", "endsEarly"), (" ", "endsEarly"), ("{", "endsEarly"), ("[1", "endsEarly"), ("[1,", "endsEarly"),
            ("{\"a\"", "endsEarly"), ("{\"a\":", "endsEarly"), ("\"abc", "endsEarly"), ("\"\\", "endsEarly"),
            ("tru", "endsEarly"), ("-", "endsEarly"), ("1.", "endsEarly"), ("1e", "endsEarly"), ("{]", "grammar"),
            ("[}", "grammar"), ("[1}", "grammar"), ("{\"a\":1]", "grammar"), ("[1,]", "grammar"),
            ("{\"a\":1,}", "grammar"),
            ("{,}", "grammar"), ("[,]", "grammar"), ("{a:1}", "grammar"), ("{1:1}", "grammar"),
            ("{\"a\" 1}", "grammar"),
            ("{\"a\"::1}", "grammar"), ("[1 2]", "grammar"), ("1 2", "grammar"), ("{}{}", "grammar"),
            ("nul1", "grammar"),
            ("True", "grammar"), ("01", "grammar"), ("+1", "grammar"), (".5", "grammar"), ("1.x", "grammar"),
            ("--1", "grammar"), ("NaN", "grammar"), ("'a'", "grammar"), ("\"\\x41\"", "grammar"), ("//\n1", "grammar"),
            ("\"\\u12g4\"", "characters"), ("\"\\ud83d\"", "characters"), ("\"\\ud83d\\u0041\"", "characters"),
            ("\"\\udc22\"", "characters"), ("\"a\nb\"", "characters"), ("\"a\u{0}b\"", "characters"),
            ("{\"a\":1,\"a\":2}", "duplicateKey"), ("{\"a\":1,\"\\u0061\":2}", "duplicateKey"),
            ("[{\"x\":{\"b\":1,\"c\":{\"b\":1},\"b\":2}}]", "duplicateKey"), ("\u{feff}1", "grammar"),
        ])
    func refuses(text: String, kind: String) {
        #expect(tokens(text).last == "!\(kind)")
    }

    @Test(
        "bytes that are not UTF-8 are refused",
        arguments: [
            [0x80], [0xc0, 0xaf], [0xc3], [0xc3, 0x28], [0xe0, 0x80, 0xaf], [0xed, 0xa0, 0x80],
            [0xf0, 0x80, 0x80, 0x80],
            [0xf4, 0x90, 0x80, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xff], [0xe2, 0x82],
        ] as [[UInt8]])
    func notUTF8(bytes: [UInt8]) {
        #expect(tokens([0x22] + bytes + [0x22]).last == "!characters")
        #expect(tokens([0x22] + bytes).last == "!characters")
    }

    @Test("the depth is bounded, and the bound itself is allowed")
    func depth() {
        #expect(tokens(String(repeating: "[", count: 4) + String(repeating: "]", count: 4), depthMax: 4).last == ".")
        #expect(tokens(String(repeating: "[", count: 5), depthMax: 4).last == "!tooDeep")
        #expect(tokens(String(repeating: "{\"a\":", count: 100_000)).last == "!tooDeep")
    }

    @Test("a value is passed over whole, whatever it holds")
    func skips() throws {
        let text = Array(#"{"a":{"x":[1,{"y":"]}"}]},"b":7}"#.utf8)
        try text.withUnsafeBytes { bytes in
            var reader = JSONReader(bytes)
            _ = try reader.next()
            _ = try reader.next()
            try reader.skipValue()
            guard case .name(let name) = try reader.next() else { throw JSONError(.grammar, at: 0) }
            #expect(JSONText.matches(name, of: bytes, "b") && !JSONText.matches(name, of: bytes, "bb"))
            try reader.skipValue()
            #expect(try reader.next() == .objectEnd)
            #expect(try reader.next() == .end)
        }
    }

    @Test("a string that is written reads back the same", arguments: ["", "a\"\\/\n\r\t\u{0}\u{1f}\u{7f}é€🐢"])
    func writes(text: String) throws {
        var buffer = SecretBuffer()
        JSONText.write(text, into: &buffer)
        let written = buffer.withBytes { Array($0) }
        #expect(tokens(written) == ["'" + text, "."])
        var broken = SecretBuffer()
        #expect([UInt8](arrayLiteral: 0x61, 0xff).withUnsafeBytes { JSONText.write($0, into: &broken) } == false)
    }

    @Test("a name is told once, however many there are")
    func manyNames() {
        let members = (0..<20_000).map { "\"k\($0)\":0" }.joined(separator: ",")
        #expect(tokens("{\(members)}").last == ".")
        #expect(tokens("{\(members),\"k7\":0}").last == "!duplicateKey")
    }
}
