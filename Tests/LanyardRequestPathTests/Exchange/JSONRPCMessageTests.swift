import Testing

@testable import LanyardRequestPath

/// Which messages of JSON-RPC await no reply (http-connections.md 19.5).
@Suite struct JSONRPCMessageTests {
    private static func isWithoutReply(_ pieces: [[UInt8]]) -> Bool {
        var message = JSONRPCMessage()
        for piece in pieces { piece.withUnsafeBytes { message.read($0) } }
        return message.isWithoutReply
    }

    @Test(
        "notifications and responses alone await no reply, wherever the text is cut",
        arguments: [
            (#"{"jsonrpc":"2.0","method":"a"}"#, true), (#"{"method":"a","params":{"id":1,"x":[{"id":2}]}}"#, true),
            (#" [ {"method":"a"} , {"id":1,"result":{}} ] "#, true), (#"{"id":1,"error":{"method":"a"}}"#, true),
            (#"{"id":1,"result":"method"}"#, true), (#"{"method":"\"id\":1","params":"id"}"#, true),
            (#"{"method":"a","params":["id",{},[],"}"]}"#, true),
            (#"{"method":"a","identity":1,"xid":2,"methods":3}"#, true),
            (#"{"method":"id"}"#, true), ("{\"method\":\"\u{e4}\u{1F600}\"}\r\n", true),
            (#"{"method":"a","id":1}"#, false), (#"{"id":null,"method":"a"}"#, false), (#"{"id":1}"#, false),
            (#"{"result":1,"id":1,"method":"a"}"#, false), (#"{}"#, false), (#"[]"#, false), (#"[[]]"#, false),
            (#"[{"method":"a"},{"method":"b","id":1}]"#, false), (#"[{"method":"a"},1]"#, false),
            (#"[{"method":"a"},"x"]"#, false), (#"[{"method":"a"},[{"method":"a"}]]"#, false),
            (#"[1,{"method":"a"}]"#, false), (#"[{"method":"a"},null]"#, false), (#"[{"method":"a"},{}]"#, false),
            ("", false), (" ", false), ("1", false), ("null", false), (#""method""#, false), ("x", false),
            (#"{"method":"a""#, false), (#"{"method":"a"}}"#, false), (#"{"method":"a"}{"method":"a"}"#, false),
            (#"{"method":"a"} x"#, false), (#"{"method":"a"},"#, false), (#"{"method":"a"]"#, false),
            (#"[{"method":"a"}}"#, false), (#"[{"method":"a"]}"#, false), (#"}{"method":"a"}"#, false),
            (#","method":"a"}"#, false), (#"{"method":"a"#, false),
            (#"{"method":"a\"#, false), (#"{"met\u0068od":"a","\u0069d":1}"#, false), ("\u{FEFF}", false),
            // Escapes in names, and a byte order mark.
            (#"{"met\u0068od":"a"}"#, true), (#"{"method":"a","\u0069dx":1}"#, true),
            ("\u{FEFF}{\"method\":\"a\"}", true),
        ])
    func kinds(_ text: String, _ expected: Bool) {
        let bytes = Array(text.utf8)
        #expect(Self.isWithoutReply([bytes]) == expected)
        #expect(Self.isWithoutReply(bytes.map { [$0] }) == expected)
        for cut in bytes.indices {
            #expect(Self.isWithoutReply([Array(bytes[..<cut]), [], Array(bytes[cut...])]) == expected, "\(cut)")
        }
    }

    @Test("each cut text of a message counts as a request, and no bytes stop the reader")
    func hostile() {
        let text = Array(#"[{"method":"a","params":{"b":["c\\",{}]}},{"id":1,"result":"\u0041"}]"#.utf8)
        #expect(Self.isWithoutReply([text]))
        for cut in text.indices { #expect(!Self.isWithoutReply([Array(text[..<cut])])) }
        for byte in UInt8.min ... .max {
            for place in text.indices {
                var other = text
                other[place] = byte
                _ = Self.isWithoutReply([other])
            }
        }
        #expect(!Self.isWithoutReply([Array(repeating: UInt8(ascii: "["), count: 1 << 20)]))
        #expect(!Self.isWithoutReply([Array(repeating: UInt8(ascii: "]"), count: 1 << 10)]))
    }
}
