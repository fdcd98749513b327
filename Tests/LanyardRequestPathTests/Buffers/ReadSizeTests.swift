import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

/// How many bytes one read of a body asks for.
@Suite struct ReadSizeTests {
    @Test("a loopback connection takes one read, with a head, in the four segments of one write")
    func segments() { #expect(ReadSize.large + 812 == 4 * 65_483) }

    @Test(
        "a large read is made while an eighth of the memory has room for it; then one brings 64 KiB",
        arguments: [
            (64 << 20, 0, 261_120), (64 << 20, (8 << 20) - 261_120, 261_120), (64 << 20, (8 << 20) - 261_119, 65_536),
            (64 << 20, 16 << 20, 65_536), (64 << 20, (16 << 20) + 1, 16_000), (1 << 20, 0, 65_536),
        ])
    func pressure(_ bytesMax: Int, _ held: Int, _ readSize: Int) {
        let budget = BufferBudget(bytesMax)
        budget.add(held)
        #expect(budget.readSize(upTo: ReadSize.large) == readSize)
        #expect(budget.readSize(upTo: 4_000) == 4_000)
        budget.release(held)
    }

    @Test(
        "a read of an upload brings what is left of it, and at most 64 KiB of what follows",
        arguments: [
            (BodyFraming.length(1), 65_537), (.length(195_584), 261_120), (.length(195_585), 261_120),
            (.length(.max), 261_120), (.chunked, 65_536),
        ])
    func upload(_ framing: BodyFraming, _ readSize: Int) throws {
        var body = RequestBody(framing)
        #expect(body.readSize == readSize)
        guard case .length(let length) = framing, length > 65_536 else { return }
        // What has come is not asked for again.
        let part = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 1)
        defer { part.deallocate() }
        _ = try body.consume(part)
        #expect(body.readSize == (length == .max ? 261_120 : length))
    }

    @Test("after a stall a read brings what the client has taken; it doubles with each read that is taken whole")
    func stalls() {
        var relay = ResponseRelay(budget: BufferBudget(1 << 20))
        var sizes: [Int] = []
        func read(_ count: Int, queued: Int) {
            relay.adaptReadSize(afterReading: count, queued: queued)
            sizes.append(relay.readSizeMax)
        }
        read(261_120, queued: 0)
        read(261_120, queued: 161_120)
        read(60_000, queued: 0)
        read(100_000, queued: 0)
        read(200_000, queued: 0)
        #expect(sizes == [261_120, 100_000, 100_000, 200_000, 261_120])
        sizes = []
        // A client that takes little, and the head that is queued with the bytes of a read.
        read(5_000, queued: 5_200)
        read(8_000, queued: 1)
        read(8_000, queued: 0)
        #expect(sizes == [8_000, 8_000, 16_000])
    }
}
