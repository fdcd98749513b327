import Testing

@testable import LanyardFoundations

@Suite("Dates of HTTP, read")
struct HTTPDateReadingTests {
    @Test(
        "all three forms are read",
        arguments: ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"])
    func forms(text: String) {
        #expect(HTTPDate.read(text) == WallTime(seconds: 784_111_777))
    }

    @Test("what is written is read back", arguments: [0, 951_782_400, 1_709_164_800, 1_732_186_800, 4_102_444_799])
    func roundTrip(seconds: Int64) {
        let text = String(unsafeUninitializedCapacity: HTTPDate.count) { bytes in
            HTTPDate.write(WallTime(seconds: seconds), into: bytes.baseAddress!)
            return HTTPDate.count
        }
        #expect(HTTPDate.read(text) == WallTime(seconds: seconds))
    }

    @Test(
        "anything else is no date",
        arguments: [
            "", "GMT", "now", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Abc 1994 08:49:37 GMT",
            "Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 ovD 1994 08:49:37 GMT",
            "Sun, 06 Nov 19940 08:49:37 GMT", "Sun, 06 Nov -994 08:49:37 GMT", "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT", "Sun, 0é Nov 1994 08:49:37 GMT",
        ])
    func none(text: String) {
        #expect(HTTPDate.read(text) == nil)
    }
}
