import Testing

@testable import LanyardFoundations

@Suite("Growing secrets")
struct SecretBufferTests {
    @Test("bytes survive growing and sealing")
    func grows() {
        var buffer = SecretBuffer(capacity: 1)
        var expected: [UInt8] = []
        for round in 0..<50 {
            let bytes = [UInt8](repeating: UInt8(round), count: round)
            bytes.withUnsafeBytes { buffer.append($0) }
            buffer.append(UInt8(255))
            expected += bytes + [255]
        }
        #expect(buffer.count == expected.count)
        let secret = buffer.seal()
        #expect(secret.withBytes { Array($0) } == expected)
    }

    @Test("an empty buffer is an empty secret, and an emptied one is filled anew")
    func empties() {
        #expect(SecretBuffer(capacity: 0).seal().count == 0)
        var buffer = SecretBuffer()
        buffer.append("first")
        buffer.removeAll()
        buffer.append("2")
        #expect(buffer.withBytes { Array($0) } == Array("2".utf8))
        #expect("\(buffer.seal())" == "<secret>")
    }
}
