import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

/// Scans that look at several bytes together find what a look at each byte finds.
@Suite struct ByteScanTests {
    @Test("the end of a value, for every byte at every place of a word, before every other odd byte")
    func endOfValue() async throws {
        try await scan(isAllowed: ByteClass.isValue) { $0.endOfValue(from: $1) }
    }

    @Test("the end of a plain name, for every byte at every place of a word, before every other odd byte")
    func endOfPlainName() async throws {
        try await scan(isAllowed: ByteClass.isPlainName) { $0.endOfPlainName(from: $1) }
    }

    /// Two seconds of computing each: not on the pool, where nothing else would go on meanwhile.
    private func scan(
        isAllowed: @escaping @Sendable (UInt8) -> Bool, _ end: @escaping @Sendable (Bytes, Int) -> Int
    ) async throws {
        let faults = Self.faults(isAllowed, end)
        #expect(faults.isEmpty)
    }

    private static func faults(_ isAllowed: (UInt8) -> Bool, _ end: (Bytes, Int) -> Int) -> [String] {
        var faults: [String] = []
        for length in 0...20 {
            for place in 0..<max(length, 1) {
                for byte in UInt8.min ... .max {
                    for other: UInt8 in [0x61, 0x09, 0x0d, 0x7f, 0x00, 0xff, 0x80, 0x20] {
                        var bytes = [UInt8](repeating: 0x62, count: length)
                        if length > 0 {
                            bytes[length - 1] = other
                            bytes[place] = byte
                        }
                        for start in [0, 1, 7] where start <= length {
                            let expected = bytes[start...].firstIndex { !isAllowed($0) } ?? length
                            let found = bytes.withUnsafeBufferPointer { length == 0 ? 0 : end($0, start) }
                            if found != expected { faults.append("\(bytes) from \(start): \(found)") }
                        }
                    }
                }
            }
        }
        return faults
    }

    @Test("plain names are letters, digits and hyphens")
    func plainNames() {
        for byte in UInt8.min ... .max {
            #expect(ByteClass.isPlainName(byte) == (ByteClass.isAlphanumeric(byte) || byte == UInt8(ascii: "-")))
        }
    }

    @Test("nanoseconds of durations of all sizes and both signs")
    func nanoseconds() {
        #expect(Duration.zero.nanoseconds == 0)
        for seconds: Int64 in [0, 1, 17, 18, 19, 60, 90, 3600, 86_400, 5_184_000, 9_000_000_000, 9_223_372_036] {
            for part: Int64 in [0, 1, 999_999_999, 123_456_789] where seconds < 9_223_372_036 || part < 800_000_000 {
                let duration = Duration.seconds(seconds) + .nanoseconds(part)
                #expect(duration.nanoseconds == seconds * 1_000_000_000 + part)
                #expect((.zero - duration).nanoseconds == -(seconds * 1_000_000_000 + part))
            }
        }
        #expect(Duration.seconds(Int64.max).nanoseconds == .max && Duration.seconds(Int64.min).nanoseconds == .min)
        #expect(Duration(secondsComponent: 0, attosecondsComponent: 999_999_999).nanoseconds == 0)
        #expect(Duration(secondsComponent: 30, attosecondsComponent: 1_999_999_999).nanoseconds == 30_000_000_001)
    }
}
