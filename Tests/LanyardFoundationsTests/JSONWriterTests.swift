import LanyardFoundations
import TestSupport
import Testing

@Suite struct JSONWriterTests {
    @Test("a document is written with its commas, and reads back as it was meant")
    func shape() throws {
        var text = JSONWriter()
        text.beginObject()
        text.key("a")
        text.beginArray()
        text.number(1)
        text.bool(false)
        text.null()
        text.beginObject()
        text.endObject()
        text.beginArray()
        text.endArray()
        text.endArray()
        text.key("b")
        text.number(1.5)
        text.key("c")
        text.number(Double.nan)
        text.key("d")
        text.time(WallTime(seconds: 0))
        text.endObject()
        #expect(text.text == #"{"a":[1,false,null,{},[]],"b":1.5,"c":null,"d":"1970-01-01T00:00:00.000Z"}"#)
        #expect(try JSON(text.bytes)["a"].array.count == 5)
    }

    @Test(
        "text is escaped so that a line stays a line",
        arguments: [
            ([0x61, 0x22, 0x5c, 0x0a, 0x09, 0x0d, 0x00, 0x1b, 0x7f], #""a\"\\\n\t\u000d\u0000\u001b\u007f""#),
            (Array("é€😀".utf8), "\"é€😀\""),
            ([0xc2, 0x9b, 0xe2, 0x80, 0xa8, 0xe2, 0x80, 0xa9], #""\u009b\u2028\u2029""#),
            ([0x61, 0xff, 0x62, 0xc3], #""a\\xffb\\xc3""#),
            (
                [0xc0, 0xaf, 0xed, 0xa0, 0x80, 0xf4, 0x90, 0x80, 0x80],
                #""\\xc0\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80""#
            ),
        ] as [([UInt8], String)])
    func escapes(bytes: [UInt8], expected: String) throws {
        var text = JSONWriter()
        bytes.withUnsafeBytes { text.string($0) }
        #expect(text.text == expected)
        _ = try JSON(text.bytes)
    }

    @Test("a long text is cut between characters", arguments: [(3, "aé…"), (2, "a…"), (4, "aéb"), (0, "…")])
    func cut(max: Int, expected: String) {
        var text = JSONWriter()
        text.string("aéb", bytesMax: max)
        #expect(text.text == "\"\(expected)\"")
    }

    @Test("a cleared document begins anew")
    func clear() {
        var text = JSONWriter()
        text.string("a")
        text.clear()
        text.number(UInt64.max)
        #expect(text.text == "18446744073709551615")
    }
}
