import LanyardRequestPath
import TestSupport
import Testing

@Suite struct ByteQueueTests {
    @Test("whatever is appended comes out in order, at any sizes")
    func model() {
        var random = SeededGenerator(8)
        var queue = ByteQueue()
        var model: [UInt8] = []
        for _ in 0..<3_000 {
            if Bool.random(using: &random) || model.isEmpty {
                let most = Int.random(in: 0..<4, using: &random) == 0 ? 20_000 : 300
                let bytes = (0..<Int.random(in: 0...most, using: &random)).map { _ in
                    UInt8.random(in: 0...255, using: &random)
                }
                bytes.withUnsafeBytes { queue.append($0) }
                model += bytes
            } else {
                let amount = Int.random(in: 0...model.count, using: &random)
                queue.consume(amount)
                model.removeFirst(amount)
            }
            let (count, isEmpty, content) = (queue.count, queue.isEmpty, Array(queue.bytes))
            #expect(count == model.count)
            #expect(isEmpty == model.isEmpty)
            #expect(content == model)
        }
    }

    @Test("what was released is gone, and the queue continues")
    func release() {
        var queue = ByteQueue()
        Array("abc".utf8).withUnsafeBytes { queue.append($0) }
        queue.release()
        let isEmpty = queue.isEmpty
        #expect(isEmpty)
        Array("de".utf8).withUnsafeBytes { queue.append($0) }
        queue.mutableBytes[0] = UInt8(ascii: "D")
        let content = Array(queue.bytes)
        #expect(content == Array("De".utf8))
    }

    @Test("an empty queue lends no bytes")
    func empty() {
        var queue = ByteQueue()
        queue.append(UnsafeRawBufferPointer(start: nil, count: 0))
        let counts = [queue.bytes.count, queue.mutableBytes.count, queue.count]
        #expect(counts == [0, 0, 0])
    }
}
