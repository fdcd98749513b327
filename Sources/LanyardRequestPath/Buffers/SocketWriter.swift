import CLinux
import Glibc
import LanyardFoundations

/// Writes to one socket. Bytes that it does not accept at once wait in a queue and go first the next time.
package enum SocketWriter {
    /// Sends three runs of bytes in order, or queues what the socket does not accept.
    ///
    /// - Parameters:
    ///   - queue: the waiting bytes; if it is not empty, all three runs are appended.
    ///   - canWrite: cleared when the socket is full.
    /// - Returns: 0, or `errno` if the connection is broken; nothing is queued then.
    package static func send(
        _ descriptor: CInt, _ head: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer, _ tail: StaticString,
        queue: inout ByteQueue, canWrite: inout Bool
    ) -> CInt {
        let end = UnsafeRawBufferPointer(start: tail.utf8Start, count: tail.utf8CodeUnitCount)
        guard queue.isEmpty && canWrite else {
            queue.append(head)
            queue.append(body)
            queue.append(end)
            return 0
        }
        let total = head.count + body.count + end.count
        guard total > 0 else { return 0 }
        let sent: Socket.Sent
        if head.count == total {
            sent = Socket.send(descriptor, head)
        } else if body.count == total {
            sent = Socket.send(descriptor, body)
        } else {
            sent = gather(descriptor, head, body, end)
        }
        var taken = 0
        switch sent {
        case .bytes(let count): taken = count
        case .wouldBlock: break
        case .failed(let code): return code
        }
        guard taken < total else { return 0 }
        canWrite = false
        for run in [head, body, end] {
            let skipped = min(taken, run.count)
            taken -= skipped
            queue.append(UnsafeRawBufferPointer(rebasing: run[skipped...]))
        }
        return 0
    }

    /// Sends the waiting bytes. 0, or `errno` if the connection is broken.
    package static func flush(_ descriptor: CInt, queue: inout ByteQueue, canWrite: inout Bool) -> CInt {
        while !queue.isEmpty, canWrite {
            switch Socket.send(descriptor, UnsafeRawBufferPointer(queue.bytes)) {
            case .bytes(let count):
                if count < queue.count { canWrite = false }
                queue.consume(count)
            case .wouldBlock: canWrite = false
            case .failed(let code): return code
            }
        }
        return 0
    }

    private static func gather(
        _ descriptor: CInt, _ head: UnsafeRawBufferPointer, _ body: UnsafeRawBufferPointer,
        _ end: UnsafeRawBufferPointer
    ) -> Socket.Sent {
        withUnsafeTemporaryAllocation(of: iovec.self, capacity: 3) { runs in
            var used = 0
            func add(_ run: UnsafeRawBufferPointer) {
                guard run.count > 0 else { return }
                let vector = iovec(iov_base: UnsafeMutableRawPointer(mutating: run.baseAddress), iov_len: run.count)
                runs.initializeElement(at: used, to: vector)
                used += 1
            }
            add(head)
            add(body)
            add(end)
            return Socket.send(descriptor, UnsafeMutableBufferPointer(rebasing: runs[0..<used]))
        }
    }
}
