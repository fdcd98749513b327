import Glibc
import Testing

@testable import LanyardFoundations

@Suite struct AcceptFailureTests {
    @Test("a client that has gone is followed by the next one, at most as often as the queue is long")
    func clientsGone() {
        var failures = AcceptFailureCounter(backlog: 3)
        for _ in 0..<3 { #expect(failures.judge(ECONNABORTED) == .clientGone) }
        #expect(failures.judge(EPERM) == .lasting)
        #expect(failures.judge(ECONNABORTED) == .lasting)
        failures.reset()
        #expect(failures.judge(ECONNABORTED) == .clientGone)
        #expect(failures.judge(EAGAIN) == .queueEmpty)
        for _ in 0..<3 { #expect(failures.judge(EPROTO) == .clientGone) }
    }

    @Test("a lack of descriptors, of memory, and an error of the socket")
    func others() {
        var failures = AcceptFailureCounter(backlog: 3)
        #expect(failures.judge(EMFILE) == .noDescriptor && failures.judge(ENFILE) == .noDescriptor)
        for code in [ENOBUFS, ENOMEM, EBADF, EINVAL] { #expect(failures.judge(code) == .lasting) }
    }
}
