import COpenSSL
import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

@Suite struct TLSDataTests {
    private func established(
        _ version: CInt = TLS1_3_VERSION, relayed: Bool = false, budget: BufferBudget? = nil
    ) throws -> TLSPair {
        let pair = try TLSPair(
            TLSBench.client(version: version), TLSBench.server(), relayed: relayed, budget: budget)
        try pair.establish()
        return pair
    }

    @Test("head, body and tail are one record where they fit", arguments: TLSBench.versions)
    func oneRecord(_ version: CInt) throws {
        let cases: [(head: Int, body: Int, records: Int)] = [
            (100, 0, 1), (0, 100, 1), (100, 200, 1), (100, 16_384 - 105, 1), (100, 16_384 - 104, 2), (0, 16_384, 2),
            (0, 16_385, 2), (16_384, 16_384, 3), (10, 70_000, 5), (40_000, 40_000, 5),
        ]
        for (head, body, expected) in cases {
            let pair = try established(version, relayed: true)
            _ = try pair.transfer([9], from: pair.server, to: pair.client)
            let before = pair.toClient.count
            let bytes = pattern(head + body)
            #expect(pair.server.send(Array(bytes[..<head]), Array(bytes[head...]), "\r\n0\r\n") == 0)
            let all = try pair.collect(head + body + 5, from: pair.server, to: pair.client)
            #expect(all == bytes + Array("\r\n0\r\n".utf8))
            let sent = records(pair.toClient[before...])
            #expect(sent.count == expected && sent.allSatisfy { $0.type == 23 }, "\(head), \(body): \(sent)")
        }
    }

    @Test("16 KiB and one byte are two records, read as one run")
    func beyondOneRecord() throws {
        let pair = try established()
        #expect(try pair.transfer(pattern(16_385), from: pair.client, to: pair.server) == pattern(16_385))
        #expect(pair.client.send(pattern(16_385)) == 0)
        #expect(pair.server.receive().0 == .bytes(16_385))
        #expect(!pair.server.session.hasPendingInput)
    }

    @Test("a room that is too small is filled, and the rest says that it is there")
    func smallRoom() throws {
        let pair = try established()
        #expect(pair.client.send(pattern(1000)) == 0)
        #expect(pair.server.receive(max: 600) == (.bytes(600), Array(pattern(1000)[..<600])))
        #expect(pair.server.session.hasPendingInput)
        #expect(pair.server.receive(max: 600) == (.bytes(400), Array(pattern(1000)[600...])))
        #expect(!pair.server.session.hasPendingInput)
        #expect(pair.server.receive(max: 600).0 == .wouldBlock)
    }

    @Test("runs of any size arrive as they were, in both directions", arguments: TLSBench.versions)
    func anySizes(_ version: CInt) throws {
        let pair = try established(version, relayed: true)
        for count in [1, 2, 1000, 16_383, 16_384, 16_385, 32_768, 50_000, 200_000] {
            pair.step = count % 3 == 0 ? 1000 : 70_000
            #expect(try pair.transfer(pattern(count), from: pair.client, to: pair.server) == pattern(count))
            #expect(try pair.transfer(pattern(count), from: pair.server, to: pair.client) == pattern(count))
        }
    }

    @Test(
        "what a slow reader does not take waits in the queue, counted, and nothing is lost", arguments: [true, false])
    func slowReader(fromClient: Bool) throws {
        let budget = BufferBudget(64 << 20)
        let pair = try established(budget: budget)
        let (sender, reader) = fromClient ? (pair.client, pair.server) : (pair.server, pair.client)
        if !fromClient { _ = pair.client.hasPendingInput() }
        let part = pattern(64 << 10)
        for _ in 0..<64 { #expect(sender.send(part) == 0) }
        let waiting = sender.queue.count
        #expect(waiting > 3 << 20 && budget.count >= waiting)
        #expect(!sender.canWrite)
        var count = 0
        var isRight = true
        while count < 64 * part.count {
            let (received, bytes) = reader.receive(max: 10_000)
            guard case .bytes = received else {
                #expect(received == .wouldBlock && sender.poll() == 0)
                continue
            }
            for byte in bytes {
                if byte != part[count % part.count] { isRight = false }
                count += 1
            }
        }
        let isEmpty = sender.queue.isEmpty
        #expect(isRight && count == 64 * part.count && isEmpty && budget.count == 0)
    }

    @Test(
        "close_notify is an end, each direction has its own, and reading continues after one's own",
        arguments: TLSBench.versions)
    func closeNotify(_ version: CInt) throws {
        let pair = try established(version)
        #expect(pair.client.send([1, 2]) == 0)
        #expect(pair.client.closeNotify() == 0)
        #expect(pair.client.closeNotify() == 0)
        #expect(pair.client.send([3]) == EPIPE)
        #expect(pair.server.receive() == (.bytes(2), [1, 2]))
        #expect(pair.server.receive().0 == .end)
        #expect(pair.server.receive().0 == .end)
        #expect(pair.server.session.failure == nil)
        #expect(try pair.transfer(pattern(50_000), from: pair.server, to: pair.client) == pattern(50_000))
        #expect(pair.server.closeNotify() == 0)
        #expect(pair.client.receive().0 == .end)
    }

    @Test("close_notify waits behind bytes that wait")
    func closeBehindQueue() throws {
        let pair = try established()
        for _ in 0..<20 { #expect(pair.client.send(pattern(50_000)) == 0) }
        let waiting = pair.client.queue.count
        #expect(waiting > 0)
        #expect(pair.client.closeNotify() == 0)
        #expect(try pair.collect(1_000_000, from: pair.client, to: pair.server).count == 1_000_000)
        _ = pair.client.poll()
        #expect(pair.server.receive().0 == .end)
    }

    @Test("a broken socket is an errno of the write, and the session has ended")
    func brokenWrite() throws {
        for count in [1, 100_000] {
            let pair = try established()
            shutdown(pair.server.socket.raw, CInt(SHUT_RDWR))
            #expect(pair.client.send(pattern(count)) == EPIPE)
            #expect(pair.client.send([1]) == EPIPE)
            #expect(pair.client.session.failure == nil && pair.client.receive().0 == .failed(.truncated))
            let isEmpty = pair.client.queue.isEmpty
            #expect(isEmpty && pair.workspace.output.pointee.count == 0)
        }
    }

    @Test("a whole small message is one recv and one send of the session")
    func fewCalls() throws {
        let pair = try established()
        _ = pair.client.hasPendingInput()
        let before = pair.server.session.sentBytes
        #expect(pair.server.send(pattern(300), pattern(300)) == 0)
        let sent = pair.server.session.sentBytes - before
        #expect(sent > 600 && sent < 640)
        _ = pair.client.poll()
        let received = pair.client.session.receivedBytes
        #expect(pair.client.receive().0 == .bytes(600))
        #expect(pair.client.session.receivedBytes - received == sent)
        // A read that brought less than there was room for has emptied the socket.
        #expect(!pair.client.session.hasPendingInput)
    }

    @Test("sessions that were used last keep their buffers, and the others have none")
    func buffers() throws {
        let workspace = TLSWorkspace(buffersMax: 2)
        let (client, server) = (try TLSBench.client(), try TLSBench.server())
        func end(_ isServer: Bool, _ socket: TestSocket) throws -> TLSEnd {
            try TLSEnd(socket, workspace) { descriptor, workspace in
                isServer
                    ? try TLSSession(descriptor, of: server, workspace: workspace)
                    : try TLSSession(descriptor, to: client, workspace: workspace)
            }
        }
        var ends: [(TLSEnd, TLSEnd)] = []
        for _ in 0..<3 {
            let (left, right) = try TLSPair.pair()
            let pair = (try end(false, left), try end(true, right))
            for _ in 0..<4 { _ = (pair.0.handshake(), pair.1.handshake()) }
            #expect(pair.0.session.canCarryData && pair.1.session.canCarryData)
            ends.append(pair)
        }
        #expect(workspace.bufferCount == 2)
        // Bytes that wait in a buffer are not lost with it.
        for (left, right) in ends {
            #expect(left.send(pattern(1000)) == 0)
            #expect(right.receive(max: 100).0 == .bytes(100))
        }
        for (_, right) in ends { #expect(right.receive() == (.bytes(900), Array(pattern(1000)[100...]))) }
        ends.removeFirst()
        workspace.releaseAll()
        #expect(workspace.bufferCount == 0)
        for (left, right) in ends {
            #expect(right.send([1]) == 0)
            #expect(left.receive().1 == [1])
        }
        ends = []
        #expect(workspace.bufferCount == 0)
    }
}
