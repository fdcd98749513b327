import LanyardRequestPath
import Testing

@Suite struct HeadLimitTests {
    private static let limits = HeadLimits(
        startLineBytesMax: 100, fieldLineBytesMax: 60, sectionBytesMax: 120, fieldsMax: 4)

    private static func reading(_ fields: String) -> RequestReading {
        .of("GET / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n", limits: limits)
    }

    private static func line(_ bytes: Int) -> String { "A: " + String(repeating: "v", count: bytes - 3) + "\r\n" }

    @Test("a field line of exactly the limit passes, wherever the bytes are cut; one more is too large")
    func lineLimit() {
        #expect(Self.reading(Self.line(60)).head != nil)
        #expect(Self.reading(Self.line(61)) == .error(.fieldsTooLarge))
    }

    @Test("white space counts", arguments: [" ", "\t"])
    func spaceCounts(_ space: String) {
        #expect(Self.reading("A:" + String(repeating: space, count: 59) + "\r\n") == .error(.fieldsTooLarge))
        #expect(Self.reading("A:" + String(repeating: space, count: 58) + "\r\n").head != nil)
        #expect(Self.reading("A:" + String(repeating: space, count: 59)) == .error(.fieldsTooLarge))
    }

    @Test("names count, and are refused as they arrive")
    func nameCounts() {
        #expect(Self.reading(String(repeating: "n", count: 61)) == .error(.fieldsTooLarge))
        #expect(Self.reading(String(repeating: "n", count: 59) + ":\r\n").head != nil)
    }

    @Test("a section of exactly the limit passes, wherever the bytes are cut; one more is too large")
    func sectionLimit() {
        // "Host: a" and its CRLF are 9 bytes; 51 more with CRLF make 62, and 58 with CRLF fill the 120.
        #expect(Self.reading(Self.line(51) + Self.line(56)).head != nil)
        #expect(Self.reading(Self.line(51) + Self.line(57)) == .error(.fieldsTooLarge))
        #expect(Self.reading(Self.line(55) + Self.line(20) + Self.line(30)).head != nil)
    }

    @Test("as many fields as allowed pass, one more is too many")
    func fieldCount() {
        #expect(Self.reading("A: 1\r\nB: 2\r\nC: 3\r\n").head?.fields.count == 4)
        #expect(Self.reading("A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n") == .error(.fieldsTooLarge))
    }

    @Test("the limit that is met first is the one that is named, wherever the bytes are cut")
    func nameOfLimit() {
        // The first line leaves 51 of the section's 120 bytes; the second has 70, more than section and line allow.
        let head = "GET / HTTP/1.1\r\n" + Self.line(67) + Self.line(70)
        let bytes = Array(head.utf8)
        let limits = HeadLimits(startLineBytesMax: 100, fieldLineBytesMax: 68, sectionBytesMax: 120, fieldsMax: 4)
        for cut in 0..<bytes.count {
            let table = FieldTable(capacity: 4)
            var reader = RequestReader()
            let error = bytes.withUnsafeBufferPointer { bytes -> HeadError? in
                do throws(HeadError) {
                    _ = try reader.read(Bytes(rebasing: bytes[0..<cut]), into: table, limits: limits)
                    _ = try reader.read(bytes, into: table, limits: limits)
                    return nil
                } catch {
                    return error
                }
            }
            #expect(error == HeadError(.fieldsTooLarge, "the field section is too long"), "cut at \(cut)")
        }
    }

    @Test("the defaults take 64 KiB of fields in lines of nearly 16 KiB, however they are cut")
    func defaults() {
        let line = "A: " + String(repeating: "v", count: 16_000) + "\r\n"
        let text = "GET / HTTP/1.1\r\nHost: a\r\n" + String(repeating: line, count: 4) + "\r\n"
        let bytes = Array(text.utf8)
        let table = FieldTable(capacity: 128)
        var reader = RequestReader()
        var end = 0
        var head: RequestHead?
        while head == nil, end < bytes.count {
            end = min(end + 997, bytes.count)
            head = bytes.withUnsafeBufferPointer { bytes in
                try? reader.read(Bytes(rebasing: bytes[0..<end]), into: table, limits: RequestReading.limits)
            }
        }
        #expect(head?.length == bytes.count)
    }
}
