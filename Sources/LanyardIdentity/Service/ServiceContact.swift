import LanyardFoundations

/// What the latest calls to an identity service have found, whatever they asked for. Written on the service's loop, read from any thread.
package final class ServiceContact: Sendable {
    /// One moment of it.
    package struct State: Sendable {
        /// The service has responded to the latest call, with less than 500; nil: there was none.
        package var isReachable: Bool?
        /// When the latest response with 2xx came.
        package var succeededAt: WallTime?
        /// The latest call without a response, or with 5xx.
        package var failure: (at: WallTime, message: String)?
        /// When the certificate ends that the latest response came with; nil: no TLS, or no response.
        package var certificateEnd: WallTime?
    }

    private let latest = Guarded(State())

    /// The latest state.
    package var state: State { latest.withLock { $0 } }

    /// A call has ended. One that Lanyard has not made, or has ended itself, says nothing about the service.
    func record(_ outcome: Result<CurlResponse, CurlError>, of request: CurlRequest) {
        let now = WallTime.now
        if case .success(let response) = outcome { latest.withLock { $0.certificateEnd = response.certificateEnd } }
        switch outcome {
        case .success(let response) where response.status < 500:
            latest.withLock { state in
                state.isReachable = true
                if 200..<300 ~= response.status { state.succeededAt = now }
            }
        case .success(let response): fail("\(Self.shown(request)) has responded with \(response.status)", now)
        case .failure(let error):
            switch error.kind {
            case .late, .stopped, .local: break
            case .timedOut, .unreachable, .untrusted, .handshake, .certificateRefused, .prohibited, .tooLarge, .broken:
                fail("\(Self.shown(request)): \(error.message)", now)
            }
        }
    }

    /// A service may have named the URL: its query is not shown.
    private static func shown(_ request: CurlRequest) -> String {
        request.unixSocket.map { "unix:\($0)" } ?? String(request.url.prefix { $0 != "?" && $0 != "#" })
    }

    private func fail(_ message: String, _ now: WallTime) {
        latest.withLock { state in
            state.isReachable = false
            state.failure = (now, message)
        }
    }
}
