/// One of libcurl's sockets in the loop's epoll, from the socket callback that adds it to the one that removes it.
package final class CurlSocket: Watcher, @unchecked Sendable {
    private unowned let multi: CurlMulti
    private let descriptor: CInt
    private var watch: EventLoop.Watch?

    init(_ descriptor: CInt, of multi: CurlMulti) {
        self.descriptor = descriptor
        self.multi = multi
    }

    /// Begins to watch, or changes what is watched.
    func watch(for readiness: IOReadiness, on loop: EventLoop) throws(SystemError) {
        if let watch {
            try loop.change(watch, to: readiness)
        } else {
            watch = try loop.watch(descriptor, for: readiness, by: self)
        }
    }

    /// Stops watching at once. libcurl closes the socket before the reporting call returns, and another socket may get its number.
    func unwatch(on loop: EventLoop) {
        if let watch { loop.unwatch(watch) }
        watch = nil
    }

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        multi.act(on: descriptor, readiness)
    }
}
