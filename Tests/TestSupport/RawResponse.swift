/// The steps that a `RawServer` performs after a request, in order. The connection then stays open unless a step closed it.
package struct RawResponse: Sendable {
    /// One step.
    package enum Step: Sendable {
        case send([UInt8])
        /// The same bytes many times: a large body without the memory for it.
        case repeated([UInt8], times: Int)
        case pause(Duration)
        /// Calls a function on the connection's thread, such as one that waits for a step of the test.
        case perform(@Sendable () -> Void)
        /// Passes bytes between the client and another server until both have ended, as a proxy does behind its response to CONNECT.
        case relay(RawEndpoint)
        case close
        case reset
    }

    /// The steps, in order.
    package var steps: [Step]

    /// These steps only.
    package init(_ steps: [Step]) { self.steps = steps }

    /// Bytes as they are.
    package static func bytes(_ bytes: [UInt8]) -> RawResponse { RawResponse([.send(bytes)]) }
    /// Text as it is.
    package static func text(_ text: String) -> RawResponse { .bytes(Array(text.utf8)) }

    /// A response with a Content-Length.
    package static func response(
        _ status: Int = 200, _ reason: String = "OK", fields: [(String, String)] = [], body: String = "ok"
    ) -> RawResponse {
        var head = "HTTP/1.1 \(status) \(reason)\r\nContent-Length: \(body.utf8.count)\r\n"
        for (name, value) in fields { head += "\(name): \(value)\r\n" }
        return .text(head + "\r\n" + body)
    }

    /// A response with a body of `count` bytes, sent in runs of 64 KiB.
    package static func large(_ count: Int, byte: UInt8 = 0x61) -> RawResponse {
        let run = 65536
        return RawResponse([
            .send(Array("HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\n\r\n".utf8)),
            .repeated([UInt8](repeating: byte, count: run), times: count / run),
            .send([UInt8](repeating: byte, count: count % run)),
        ])
    }

    /// A proxy opens a tunnel to a server.
    package static func tunnel(to server: RawEndpoint) -> RawResponse {
        RawResponse([.send(Array("HTTP/1.1 200 Connection established\r\n\r\n".utf8)), .relay(server)])
    }

    /// The connection ends without a response.
    package static let close = RawResponse([.close])
    /// The connection is reset without a response.
    package static let reset = RawResponse([.reset])

    /// The same after a pause.
    package func after(_ pause: Duration) -> RawResponse { RawResponse([.pause(pause)] + steps) }
    /// The same when the test has set `milestone`.
    ///
    /// - Parameter what: what the test does before, for the message of a failure.
    package func after(
        _ milestone: Milestone, _ what: String = "the test lets the response continue"
    ) -> RawResponse {
        RawResponse([.perform { milestone.wait(for: what) }] + steps)
    }
    /// The same, then the end of the connection.
    package var closing: RawResponse { RawResponse(steps + [.close]) }

    /// Only the first `count` bytes, then the connection is closed or reset.
    package func torn(after count: Int, by end: Step = .close) -> RawResponse {
        var rest = count
        var kept: [Step] = []
        for step in steps {
            switch step {
            case .send(let bytes):
                kept.append(.send(Array(bytes.prefix(rest))))
                rest = max(0, rest - bytes.count)
            case .repeated(let bytes, let times):
                let whole = min(times, rest / max(bytes.count, 1))
                kept.append(.repeated(bytes, times: whole))
                rest -= whole * bytes.count
                if whole < times {
                    kept.append(.send(Array(bytes.prefix(rest))))
                    rest = 0
                }
            case .pause, .perform, .relay: kept.append(step)
            case .close, .reset: break
            }
        }
        return RawResponse(kept + [end])
    }
}
