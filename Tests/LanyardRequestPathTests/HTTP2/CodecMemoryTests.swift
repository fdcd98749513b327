import LanyardFoundations
import LanyardSettings
import Testing

@testable import LanyardRequestPath

/// H19: what the codec holds counts in `limits.buffer_bytes_max`.
@Suite("Memory of the codec")
struct CodecMemoryTests {
    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    private static let limits = HTTP2Session.Limits(
        HTTP2Settings(),
        HeadLimits(startLineBytesMax: 8192, fieldLineBytesMax: 65_536, sectionBytesMax: 65_536, fieldsMax: 128))

    private static func frame(_ kind: UInt8, flags: UInt8 = 0, stream: UInt8 = 0, _ payload: [UInt8] = []) -> [UInt8] {
        let size = payload.count
        return [UInt8(size >> 16), UInt8(size >> 8 & 0xff), UInt8(size & 0xff), kind, flags, 0, 0, 0, stream] + payload
    }

    /// A field that is never indexed, its value without Huffman coding.
    private static func field(_ name: String, _ count: Int) -> [UInt8] {
        // The length as a prefix of 7 bits and the rest (RFC 7541 §5.1).
        var rest = count - 127
        var length: [UInt8] = [127]
        while rest >= 128 {
            length.append(UInt8(rest & 127 | 128))
            rest >>= 7
        }
        length.append(UInt8(rest))
        return [0x10, UInt8(name.utf8.count)] + Array(name.utf8) + length
            + Array(repeating: UInt8(ascii: "v"), count: count)
    }

    private static func receive(_ bytes: [UInt8], _ session: HTTP2Session, _ workspace: HTTP2Workspace) -> Bool {
        let isAlive = bytes.withUnsafeBytes { session.receive($0, in: workspace) }
        session.countMemory()
        return isAlive
    }

    @Test(
        "a head that comes in parts counts as far as it has come, an idle session does not, and its end gives all back")
    func partialHead() throws {
        let budget = BufferBudget(1 << 20)
        let workspace = try #require(HTTP2Workspace())
        let memory = FrameMemory(budget: budget, on: try EventLoop(label: "test.codec"))
        do {
            let session = try #require(HTTP2Session(.server, within: Self.limits, isSecure: false, memory: memory))
            session.countMemory()
            #expect(budget.count == 0)
            #expect(Self.receive(Self.preface + Self.frame(4), session, workspace))
            let idle = budget.count
            #expect(idle <= 8 << 10)
            // GET, http, and a value of 12,000 bytes in each of two frames, the second of which is not the last.
            let first = Self.frame(1, flags: 1, stream: 1, [0x82, 0x86, 0x84] + Self.field("one", 12_000))
            #expect(Self.receive(first, session, workspace))
            let half = budget.count
            #expect(half >= idle + 12_000 && half < idle + 32_000)
            #expect(Self.receive(Self.frame(9, stream: 1, Self.field("two", 12_000)), session, workspace))
            #expect(budget.count >= half + 8_000 && session.isWithinHead)
        }
        #expect(budget.count == 0)
    }

    @Test(
        "when half of many sessions have ended the allocator's memory may be returned, and not before",
        arguments: [63, 64])
    func endedSessions(count: Int) throws {
        let budget = BufferBudget(1 << 20)
        let returns = Counter()
        budget.whenUncountedFreed { returns.add() }
        let memory = FrameMemory(budget: budget, on: try EventLoop(label: "test.codec"))
        var held = try (0..<count).map { _ in
            try #require(HTTP2Session(.server, within: Self.limits, isSecure: false, memory: memory))
        }
        held.removeLast(31)
        #expect(returns.value == 0)
        held.removeLast()
        #expect(returns.value == (count == 64 ? 1 : 0))
    }
}
