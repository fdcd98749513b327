import LanyardRequestPath
import Testing

@Suite struct ChunkedReaderTests {
    @Test(
        "chunks are put together; sizes in any case, with leading zeros; what stands behind is left alone",
        arguments: [
            ("0\r\n\r\n", ""), ("3\r\nabc\r\n0\r\n\r\n", "abc"), ("0003\r\nabc\r\n2\r\nde\r\n000\r\n\r\n", "abcde"),
            ("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"),
            ("0000000000000003\r\nabc\r\n0000000000000000\r\n\r\n", "abc"),
            ("1\r\na\r\nf\r\n012345678901234\r\n0\r\n\r\n", "a012345678901234"),
            ("1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n", "abcdefghijklmnopqrstuvwxyz"),
            ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
        ])
    func whole(_ text: String, _ body: String) {
        #expect(ChunkedReading.of(text) == .whole(body, used: text.utf8.count))
        #expect(ChunkedReading.of(text + "GET / HTTP/1.1\r\n") == .whole(body, used: text.utf8.count))
        #expect(ChunkedReading.of(text + "\r\n") == .whole(body, used: text.utf8.count))
    }

    @Test(
        "a size that is not 1 to 16 hex digits is malformed",
        arguments: [
            "\r\n", "g\r\n", "+3\r\n", "-3\r\n", "0x3\r\n", "3,\r\n", "3_0\r\n", " 3\r\n", "\t3\r\n", "3 \r\n",
            "3\t\r\n", "3 4\r\n",
            "00000000000000003\r\n", "8000000000000000\r\n", "ffffffffffffffff\r\n", "3\n", "3\rabc", ";a\r\n",
            "\u{b2}\r\n",
            "3h\r\n", "\n3\r\n", "-0\r\n", "0X1\r\n", "1g\r\n", "1.\r\n", "\"1\"\r\n", "1\u{0}\r\n", "1\u{b}\r\n",
            "1\u{a0}\r\n", "10000000000000000\r\n", "#1\r\n", "1=\r\n", "x\r\n", "1\u{7f}\r\n",
            "\u{ef}\u{bc}\u{91}\r\n", "1\n", "1\ra", "1\r\r\n", "1\n\r\n", "0\n\r\n", "0\r\r\n", "1;x\nb", "1;x\r\r\n",
        ])
    func badSizes(_ text: String) {
        #expect(ChunkedReading.of(text) == .error(.malformed))
    }

    @Test(
        "in a response blanks may stand before the end of a size line; elsewhere they are malformed as ever",
        arguments: ["3 ", "3\t", "3  \t  ", "3;a ", "3;a=b\t", "3;a=\"b\"  ", "3 ;a ;b  ", "000000000000003 "])
    func trailingBlanks(_ line: String) {
        for text in [
            "\(line)\r\nabc\r\n0\r\n\r\n", "3\r\nabc\r\n\(line.replacing("3", with: "0"))\r\nT: 1\r\n\r\n",
        ] {
            #expect(ChunkedReading.of(text) == .error(.malformed))
            #expect(ChunkedReading.of(text, takesTrailingBlanks: true) == .whole("abc", used: text.utf8.count))
        }
        for text in ["3 4\r\n", " 3\r\n", "3 \n", "3 \r3", "3; \r\n", "3;a= \r\n", "3 =\r\n", "3 a\r\n", "3;a b\r\n"] {
            #expect(
                ChunkedReading.of(text, takesTrailingBlanks: true) == .error(.malformed), "\(text.debugDescription)")
        }
    }

    @Test("2^63-1 is a size")
    func largestSize() { #expect(ChunkedReading.of("7fffffffffffffff\r\nabc") == .part("abc")) }

    @Test(
        "after the data come exactly CR and LF",
        arguments: [
            "3\r\nabcX", "3\r\nabc\n", "3\r\nabc\rX", "3\r\nabcd\r\n", "3\r\nabc0\r\n\r\n", "3\r\nab\r\n0\r\n\r\n",
            "1\r\na\r0\r\n\r\n", "1\r\na\n\r0\r\n\r\n", "1\r\na \r\n0\r\n\r\n", "1\r\naXX0\r\n\r\n",
            "1\r\na\u{0}\u{0}0\r\n\r\n", "1\r\na\r\r\n0\r\n\r\n",
        ])
    func dataEnd(_ text: String) {
        #expect(ChunkedReading.of(text) == .error(.malformed))
    }

    @Test(
        "a body is whole only after zero chunk, trailers and empty line",
        arguments: [
            "", "3", "3\r", "3\r\n", "3\r\na", "3\r\nabc", "3\r\nabc\r", "3\r\nabc\r\n", "3\r\nabc\r\n0", "0\r",
            "0\r\n", "0\r\n\r", "0\r\nA: 1\r\n",
        ])
    func parts(_ text: String) {
        guard case .part = ChunkedReading.of(text) else {
            Issue.record("\(ChunkedReading.of(text))")
            return
        }
    }

    @Test(
        "extensions follow their grammar and are left out",
        arguments: [
            ";a", ";a=b", ";a=\"b\"", ";a=\"b;\\\"c\\\\\"", " ;a", "\t; a = b", ";a ; b=c", ";a=\"\"",
            ";a=\"\u{e9}\t\"", ";a;b;c",
            ";a=b ;c", ";a=\"b\" ;c", " ; a=\"b\"", "\t ; \ta \t= \t\"x y\"", ";a;b=c;d=\"e\"", ";!#$%&'*+-.^_`|~=x",
            "; a = b ; c", ";a=\"\t\u{80}\u{ff}\"", ";a=\"\\\u{80}\"",
        ])
    func extensions(_ text: String) {
        let body = "3\(text)\r\nabc\r\n0\(text)\r\n\r\n"
        #expect(ChunkedReading.of(body) == .whole("abc", used: body.unicodeScalars.count))
    }

    @Test(
        "an extension that breaks its grammar is malformed, also a line end inside quotes",
        arguments: [
            ";", ";=b", ";a=", ";a==b", ";a b", ";a=b c", ";a=\"b", ";a=\"b\r\n\"", ";a=\"b\\\r\n\"", ";a=\"b\"c",
            ";\"a\"", ";a ", ";a=b ",
            ";a=\"b\" ", ";a=\u{1}", ";a=(", ";;", ";a;", " a", ";a=b=c", ";a\nb", ";;a", ";a=\"b\\", ";\u{e9}",
            ";a=(b)",
            ";a=\u{0}", ";a=\"\u{1}\"", ";a\u{0}", "; ", ";a,b", ";a=\"\u{7f}\"", ";a=\"x\r\n1\r\nb\r\n0\r\n\r\n\"",
            ";a=\"\n\"",
            ";a=\"\r\"", ";a\n", ";a\r", ":a", "/a", "a=b",
        ])
    func badExtensions(_ text: String) {
        #expect(ChunkedReading.of("3\(text)\r\nabc\r\n0\r\n\r\n") == .error(.malformed))
        #expect(ChunkedReading.of("0\(text)\r\n\r\n") == .error(.malformed))
    }

    @Test("trailers are checked by the rules of fields")
    func trailers() {
        let good = "1\r\na\r\n0\r\nX: 1\r\nY:\r\n\r\n"
        #expect(ChunkedReading.of(good) == .whole("a", used: good.utf8.count))
        for lines in FieldLines.refused {
            #expect(ChunkedReading.of("0\r\n\(lines)\r\n") == .error(.malformed), "\(lines.debugDescription)")
        }
    }

    @Test("limits: size line 4 KiB, extensions 16 KiB, trailers 16 KiB and 32 fields")
    func limits() {
        let long = ";a=" + String(repeating: "b", count: (4 << 10) - 6)
        #expect(ChunkedReading.of("1\(long)\r\na\r\n0\r\n\r\n") == .whole("a", used: (4 << 10) + 8))
        #expect(ChunkedReading.of("1\(long)b\r\na\r\n0\r\n\r\n") == .error(.malformed))
        let chunk = "1;" + String(repeating: "b", count: 1022) + "\r\na\r\n"
        guard case .part = ChunkedReading.of(String(repeating: chunk, count: 16)) else {
            Issue.record("16 KiB of extensions are refused")
            return
        }
        #expect(ChunkedReading.of(String(repeating: chunk, count: 17)) == .error(.malformed))
        let trailers = String(repeating: "A: 1\r\n", count: 32)
        #expect(ChunkedReading.of("0\r\n\(trailers)\r\n") == .whole("", used: 5 + trailers.utf8.count))
        #expect(ChunkedReading.of("0\r\n\(trailers)A: 1\r\n\r\n") == .error(.fieldsTooLarge))
        let line = "A: " + String(repeating: "v", count: (16 << 10) - 3)
        #expect(ChunkedReading.of("0\r\n\(line)") == .part(""))
        #expect(ChunkedReading.of("0\r\n\(line)v") == .error(.fieldsTooLarge))
        let half = "A: " + String(repeating: "v", count: (8 << 10) - 5) + "\r\n"
        #expect(ChunkedReading.of("0\r\n\(half)\(half)\r\n") == .whole("", used: 5 + (16 << 10)))
    }
}
