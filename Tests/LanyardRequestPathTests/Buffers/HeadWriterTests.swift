import Testing

@testable import LanyardRequestPath

/// Numbers as texts, written without one of Swift's.
@Suite struct HeadWriterTests {
    private static func text(_ write: (inout HeadWriter) -> Void) -> String {
        // One byte of room: the writer grows first.
        var out = HeadWriter(capacity: 1)
        write(&out)
        return String(decoding: out.bytes, as: UTF8.self)
    }

    @Test("decimal numbers of every length, on both sides of each power of ten")
    func decimal() {
        var power = 1
        for _ in 0..<18 {
            for number in [power - 1, power, power + 1, power * 9] {
                #expect(Self.text { $0.write(decimal: number) } == String(number))
            }
            power *= 10
        }
        #expect(Self.text { $0.write(decimal: power) } == String(power))
        #expect(Self.text { $0.write(decimal: .max) } == String(Int.max))
    }

    @Test("hexadecimal numbers have 16 digits, each digit at each place")
    func hex() {
        for digit: UInt64 in 0..<16 {
            for place: UInt64 in 0..<16 {
                let digits = String(digit << (4 * place), radix: 16)
                let expected = String(repeating: "0", count: 16 - digits.count) + digits
                #expect(Self.text { $0.write(hex: digit << (4 * place)) } == expected)
            }
        }
        #expect(Self.text { $0.write(hex: 0x0123_4567_89ab_cdef) } == "0123456789abcdef")
        #expect(Self.text { $0.write(hex: .max) } == "ffffffffffffffff")
    }

    @Test("capital letters become small ones, each byte at each place of a word, and no other byte changes")
    func lowered() {
        for byte: UInt8 in 0...255 {
            let small = 0x41...0x5a ~= byte ? byte + 0x20 : byte
            for length in [1, 7, 8, 9, 16, 19] {
                for place in 0..<length {
                    var name = [UInt8](repeating: 0x7f, count: length)
                    var expected = name
                    (name[place], expected[place]) = (byte, small)
                    var out = HeadWriter(capacity: 1)
                    name.withUnsafeBufferPointer { out.write(lowered: $0) }
                    #expect(out.bytes.elementsEqual(expected))
                }
            }
        }
    }
}
