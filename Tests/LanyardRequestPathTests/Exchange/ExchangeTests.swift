import LanyardFoundations
import LanyardRequestPath
import Testing

@Suite struct ExchangeTests {
    private static func request(
        _ method: RequestHead.Method = .get, _ framing: BodyFraming = .none, minor: Int = 1, close: Bool = false
    ) -> RequestHead {
        var head = RequestHead()
        (head.kind, head.framing, head.minorVersion) = (method, framing, minor)
        head.connection.hasClose = close
        return head
    }

    private static func response(
        _ framing: BodyFraming = .length(5), close: Bool = false, forbidden: Bool = false, minor: Int = 1
    ) -> ResponseHead {
        var head = ResponseHead()
        (head.status, head.framing, head.minorVersion) = (200, framing, minor)
        head.connection.hasClose = close
        head.announcesForbiddenBody = forbidden
        return head
    }

    /// Sent whole, on a fresh or a reused connection.
    private static func sent(_ head: RequestHead = request(), reused: Bool = false) -> Exchange {
        var exchange = Exchange(head)
        exchange.handleSentHead(reused: reused, hasBody: head.framing != .none)
        if head.framing != .none { exchange.handleRequestEnd() }
        return exchange
    }

    @Test("an ordinary exchange keeps both connections")
    func ordinary() {
        var exchange = Self.sent()
        exchange.handleFinalHead(Self.response(), delimitedByClose: false)
        #expect(exchange.response == .relaying)
        #expect(exchange.handleResponseEnd(leftover: false) == .finish(keepsUpstream: true, keepsClient: true))
        #expect(exchange.response == .ended)
    }

    @Test("the upstream's connection is used again only if it is in step")
    func upstreamKept() {
        let cases: [(ResponseHead, Bool)] = [
            (Self.response(close: true), false), (Self.response(forbidden: true), false),
            (Self.response(.untilClose), false), (Self.response(minor: 0), false), (Self.response(.chunked), true),
        ]
        for (head, keeps) in cases {
            var exchange = Self.sent()
            exchange.handleFinalHead(head, delimitedByClose: false)
            #expect(exchange.handleResponseEnd(leftover: false) == .finish(keepsUpstream: keeps, keepsClient: true))
        }
        var exchange = Self.sent()
        exchange.handleFinalHead(Self.response(), delimitedByClose: false)
        #expect(exchange.handleResponseEnd(leftover: true) == .finish(keepsUpstream: false, keepsClient: true))
    }

    @Test("the client's connection ends if it said so, if the body ends by close, or if we were told to close it")
    func clientKept() {
        var said = Self.sent(Self.request(close: true))
        said.handleFinalHead(Self.response(), delimitedByClose: false)
        #expect(said.closesClient)
        #expect(said.handleResponseEnd(leftover: false) == .finish(keepsUpstream: true, keepsClient: false))
        var old = Self.sent(Self.request(minor: 0))
        old.handleFinalHead(Self.response(), delimitedByClose: false)
        #expect(old.closesClient)
        var delimited = Self.sent()
        delimited.handleFinalHead(Self.response(), delimitedByClose: true)
        #expect(delimited.closesClient)
        var told = Self.sent()
        told.closeClient()
        #expect(told.closesClient)
    }

    @Test("an early response closes both, even if the upload ends before the response does")
    func early() {
        var cut = Exchange(Self.request(.post, .length(9)))
        cut.handleSentHead(reused: false, hasBody: true)
        cut.handleFinalHead(Self.response(), delimitedByClose: false)
        #expect(cut.closesClient)
        #expect(cut.handleResponseEnd(leftover: false) == .finish(keepsUpstream: false, keepsClient: false))
        var late = Exchange(Self.request(.post, .length(9)))
        late.handleSentHead(reused: false, hasBody: true)
        late.handleFinalHead(Self.response(), delimitedByClose: false)
        late.handleRequestEnd()
        #expect(late.handleResponseEnd(leftover: false) == .finish(keepsUpstream: true, keepsClient: false))
    }

    @Test(
        "a reused connection that ends without a byte is retried once for idempotent requests that are held whole, never for others",
        arguments: [
            (.get, .none, true), (.head, .none, true), (.options, .none, true), (.put, .none, true),
            (.delete, .none, true), (.delete, .length(0), true), (.put, .length(3), true), (.get, .chunked, true),
            (.post, .none, false), (.patch, .none, false), (.other, .none, false), (.post, .length(0), false),
            (.post, .length(3), false),
        ] as [(RequestHead.Method, BodyFraming, Bool)])
    func retries(_ method: RequestHead.Method, _ framing: BodyFraming, _ retries: Bool) {
        for clean in [true, false] {
            let request = Self.request(method, framing)
            var exchange = Self.sent(request, reused: true)
            let step = exchange.handleUpstreamEnd(clean: clean, sawBytes: false, holdsRequest: true)
            let problem = method.isIdempotent ? Problem.upstreamTerminated : .upstreamTerminated.notRepeatable
            #expect(step == (retries ? .retry : .refuse(problem)))
            var partial = Self.sent(request, reused: true)
            let other = partial.handleUpstreamEnd(clean: clean, sawBytes: false, holdsRequest: false)
            #expect(other == .refuse(problem))
            guard retries else { continue }
            #expect(exchange.request == .unsent && exchange.retries == 1)
            exchange.handleSentHead(reused: true, hasBody: false)
            let again = exchange.handleUpstreamEnd(clean: clean, sawBytes: false, holdsRequest: true)
            #expect(again == .refuse(.upstreamTerminated))
        }
    }

    @Test("a held response is no response yet: a fault is a problem, an end of the upstream nothing")
    func held() {
        var exchange = Self.sent()
        exchange.hold()
        #expect(exchange.response == .held)
        #expect(exchange.handleUpstreamEnd(clean: false, sawBytes: true, holdsRequest: true) == .wait)
        #expect(exchange.handleRequestFailure(.requestTimeout) == .refuse(.requestTimeout))
        exchange.handleFinalHead(Self.response(), delimitedByClose: false)
        #expect(exchange.response == .relaying)
        #expect(exchange.handleResponseEnd(leftover: false) == .finish(keepsUpstream: true, keepsClient: true))
    }

    @Test(
        "a replay begins anew; its connection may be used for it if the request was sent and the response leaves it in step"
    )
    func replay() {
        let cases: [(ResponseHead, Bool)] = [
            (Self.response(), true), (Self.response(.chunked), true), (Self.response(close: true), false),
            (Self.response(.untilClose), false), (Self.response(minor: 0), false),
        ]
        for (head, keeps) in cases {
            var exchange = Self.sent()
            exchange.hold()
            let isInStep = exchange.replay(insteadOf: head)
            #expect(isInStep == keeps)
            #expect(exchange.request == .unsent && exchange.response == .awaited && exchange.replays == 1)
        }
        var early = Exchange(Self.request(.post, .length(9)))
        early.handleSentHead(reused: false, hasBody: true)
        early.hold()
        let isInStep = early.replay(insteadOf: Self.response())
        #expect(!isInStep)
    }

    @Test(
        "a replay of what may not be repeated needs a fresh connection; the first sending of it, and what may be, does not"
    )
    func freshConnection() {
        for (method, needs) in [
            (.post, true), (.patch, true), (.other, true), (.get, false), (.put, false), (.delete, false),
        ] as [(RequestHead.Method, Bool)] {
            var exchange = Self.sent(Self.request(method))
            #expect(!exchange.needsFreshConnection)
            exchange.hold()
            _ = exchange.replay(insteadOf: Self.response())
            #expect(exchange.needsFreshConnection == needs)
        }
    }

    @Test("without a byte taken any method may go elsewhere: from kept connections ever again, from fresh ones once")
    func elsewhere() {
        var exchange = Exchange(Self.request(.post, .length(3)))
        for isReused in [true, true, false] {
            exchange.handleSentHead(reused: isReused, hasBody: true)
            #expect(exchange.canRetryUnsent)
            let step = exchange.retryUnsent()
            #expect(step == .retry && exchange.request == .unsent && exchange.retries == 0)
        }
        exchange.handleSentHead(reused: false, hasBody: true)
        #expect(!exchange.canRetryUnsent)
        exchange.handleSentHead(reused: true, hasBody: true)
        #expect(exchange.canRetryUnsent)
        _ = exchange.handleInterim(bytes: 10, at: .past)
        #expect(!exchange.canRetryUnsent)
    }

    @Test("first, one retry, one replay: a request is sent three times at most")
    func threeSends() {
        var exchange = Self.sent(reused: true)
        #expect(exchange.handleInterim(bytes: 10, at: .past) == .wait)
        exchange.hold()
        _ = exchange.replay(insteadOf: Self.response())
        exchange.handleSentHead(reused: true, hasBody: false)
        // The interim response was the first sending's.
        #expect(exchange.handleUpstreamEnd(clean: true, sawBytes: false, holdsRequest: true) == .retry)
        exchange.handleSentHead(reused: true, hasBody: false)
        let end = exchange.handleUpstreamEnd(clean: true, sawBytes: false, holdsRequest: true)
        #expect(end == .refuse(.upstreamTerminated))
        #expect(exchange.replays == 1 && exchange.retries == 1)
    }

    @Test("nothing is retried on a fresh connection, or after a byte or an interim response")
    func noRetry() {
        var fresh = Self.sent()
        #expect(
            fresh.handleUpstreamEnd(clean: true, sawBytes: false, holdsRequest: true) == .refuse(.upstreamTerminated))
        var bytes = Self.sent(reused: true)
        #expect(
            bytes.handleUpstreamEnd(clean: true, sawBytes: true, holdsRequest: true) == .refuse(.upstreamIncomplete))
        var interim = Self.sent(reused: true)
        #expect(interim.handleInterim(bytes: 100, at: .past) == .wait)
        #expect(
            interim.handleUpstreamEnd(clean: true, sawBytes: false, holdsRequest: true) == .refuse(.upstreamIncomplete))
    }

    @Test("an end completes only a body that lasts until the end, and only an orderly one")
    func ends() {
        for (framing, clean, complete) in [
            (BodyFraming.untilClose, true, true), (.untilClose, false, false), (.length(5), true, false),
            (.chunked, true, false),
        ] {
            var exchange = Self.sent()
            exchange.handleFinalHead(Self.response(framing), delimitedByClose: false)
            let step = exchange.handleUpstreamEnd(clean: clean, sawBytes: true, holdsRequest: true)
            #expect(step == (complete ? .finish(keepsUpstream: false, keepsClient: true) : .abort(.upstream)))
        }
        var ended = Self.sent()
        ended.handleFinalHead(Self.response(), delimitedByClose: false)
        _ = ended.handleResponseEnd(leftover: false)
        #expect(ended.handleUpstreamEnd(clean: false, sawBytes: true, holdsRequest: true) == .wait)
    }

    @Test("a fault is a problem before the final head, an abort behind it")
    func faults() {
        let error = HeadError.malformed("x")
        let steps: [(ResponseCut, (inout Exchange) -> (Exchange.Action, Problem))] = [
            (.upstream, { ($0.handleUpstreamFailure(error), .upstreamInvalid(error)) }),
            (.request, { ($0.handleRequestFailure(.requestTimeout), .requestTimeout) }),
            (.idle, { ($0.handleTimeout(.upstreamResponseTimeout), .upstreamResponseTimeout) }),
            (.memory, { ($0.handleMemoryShortage(), .buffersFull) }),
        ]
        for (cut, step) in steps {
            var awaited = Self.sent()
            let (first, problem) = step(&awaited)
            #expect(first == .refuse(problem))
            var relaying = Self.sent()
            relaying.handleFinalHead(Self.response(), delimitedByClose: false)
            #expect(step(&relaying).0 == .abort(cut))
        }
    }

    @Test(
        "what the upstream may have processed is not to be repeated, unless its method is idempotent",
        arguments: [
            (.get, true), (.head, true), (.put, true), (.delete, true), (.options, true), (.post, false),
            (.patch, false), (.other, false),
        ] as [(RequestHead.Method, Bool)])
    func repeatable(_ method: RequestHead.Method, _ isRepeatable: Bool) throws {
        let steps: [(inout Exchange) -> Exchange.Action] = [
            { $0.handleTimeout(.upstreamResponseTimeout) }, { $0.handleTimeout(.upstreamWriteTimeout) },
            { $0.handleUpstreamEnd(clean: true, sawBytes: false, holdsRequest: false) },
            { $0.handleMemoryShortage() }, { $0.refuse(.upstream(.tls(.alert(80)))) },
        ]
        for (step, hasBody) in steps.flatMap({ [($0, true), ($0, false)] }) {
            var exchange = Exchange(Self.request(method, .length(3)))
            exchange.handleSentHead(reused: false, hasBody: hasBody)
            guard case .refuse(let problem) = step(&exchange) else {
                Issue.record("it is not refused")
                continue
            }
            #expect(problem.isRetryable == isRepeatable && (isRepeatable || problem.retryAfter == nil), "\(problem)")
            var unsent = Exchange(Self.request(method, .length(3)))
            guard case .refuse(let other) = step(&unsent) else { continue }
            #expect(other.isRetryable, "\(other)")
        }
        // The upstream took no byte of it.
        var queued = Exchange(Self.request(method, .length(3)))
        queued.handleSentHead(reused: false, hasBody: true)
        #expect(
            queued.handleTimeout(.upstreamWriteTimeout, isUntouched: true) == .refuse(.upstreamWriteTimeout))
    }

    @Test("64 interim responses pass at once, then one each 100 ms, without end")
    func interims() {
        var exchange = Self.sent()
        var now = Instant(nanoseconds: 1_000_000_000)
        for _ in 0..<64 { #expect(exchange.handleInterim(bytes: 100, at: now) == .wait) }
        for _ in 0..<10_000 {
            now = now + .milliseconds(100)
            #expect(exchange.handleInterim(bytes: 100, at: now) == .wait)
        }
        guard case .refuse(let problem) = exchange.handleInterim(bytes: 100, at: now + .milliseconds(99)) else {
            Issue.record("one too many passed")
            return
        }
        #expect(problem.status == 502)
    }

    @Test("one more interim response for each KiB of the body that went upstream, at any time, and each once")
    func interimsOfUpload() {
        let now = Instant(nanoseconds: 1_000_000_000)
        var exchange = Self.sent()
        for count in 1...256 { #expect(exchange.handleInterim(bytes: 60, bodyBytes: count << 12, at: now) == .wait) }
        // 64 at once, and 1,024 for 1 MiB; 256 have come.
        for _ in 0..<64 + 1024 - 256 {
            #expect(exchange.handleInterim(bytes: 60, bodyBytes: 1 << 20, at: now) == .wait)
        }
        #expect(exchange.handleInterim(bytes: 60, bodyBytes: 1 << 20, at: now) != .wait)
        var small = Self.sent()
        for _ in 0..<64 { #expect(small.handleInterim(bytes: 60, bodyBytes: 1023, at: now) == .wait) }
        #expect(small.handleInterim(bytes: 60, bodyBytes: 1023, at: now) != .wait)
    }

    @Test("the end of a session cuts a response that has begun, and nothing else")
    func sessionEnd() {
        var exchange = Self.sent()
        #expect(exchange.handleSessionEnd(.logout) == .wait)
        exchange.handleFinalHead(Self.response(), delimitedByClose: false)
        #expect(exchange.handleSessionEnd(.switched) == .abort(.switched))
        _ = exchange.handleResponseEnd(leftover: false)
        #expect(exchange.handleSessionEnd(.logout) == .wait)
    }

    @Test("an interim head counts once for each 8 KiB")
    func interimBytes() {
        let now = Instant(nanoseconds: 1_000_000_000)
        var exchange = Self.sent()
        #expect(exchange.handleInterim(bytes: 512 << 10, at: now) == .wait)
        #expect(exchange.handleInterim(bytes: 1, at: now) != .wait)
        var other = Self.sent()
        for _ in 0..<32 { #expect(other.handleInterim(bytes: (8 << 10) + 1, at: now) == .wait) }
        #expect(other.handleInterim(bytes: 1, at: now) != .wait)
    }
}
