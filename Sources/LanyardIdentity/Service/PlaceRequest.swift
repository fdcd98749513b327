import LanyardFoundations
import LanyardSessionInterface

/// The one or two requests for an identity service's place that are in flight (refresh.md 17): its metadata or location, for all calls
/// that wait for it. It decides; `PlaceRequest` acts.
struct PlaceRequests<Place> {
    enum Member {
        case first
        /// On a connection of its own, because the first one has no response.
        case beside
    }

    /// What follows of a result.
    enum Step {
        /// The other request may still bring the place.
        case wait
        /// The calls get this, and the other request is cancelled.
        case finish(Result<Place, IdentityError>)
        case drop
    }

    private enum State {
        /// No request is in flight.
        case idle
        /// Goes to `both` or `idle`.
        case first
        /// Goes to `first`, `beside` or `idle`. The one beside the first may be made anew.
        case both
        /// The first one has had no response, with this error. Goes to `idle`.
        case beside(IdentityError)
    }

    private var state = State.idle

    mutating func begin() { state = .first }

    /// Another request is made beside the first. One that was made so before is given up.
    ///
    /// - Returns: false: the first one is not in flight.
    mutating func beginBeside() -> Bool {
        switch state {
        case .first, .both:
            state = .both
            return true
        case .idle, .beside: return false
        }
    }

    /// A request has ended. A response is the service's word, whatever it says: the other request would get the same.
    ///
    /// - Parameter hasTime: the time of the first request has not ended.
    mutating func handle(_ result: Result<Place, IdentityError>, of member: Member, hasTime: Bool) -> Step {
        guard case .failure(let error) = result, error.status == nil, hasTime else {
            if case .idle = state { return .drop }
            state = .idle
            return .finish(result)
        }
        switch (state, member) {
        case (.idle, _), (.first, .beside), (.beside, .first): return .drop
        case (.both, .first):
            state = .beside(error)
            return .wait
        case (.both, .beside):
            state = .first
            return .wait
        case (.first, .first):
            state = .idle
            return .finish(result)
        case (.beside(let first), .beside):
            state = .idle
            return .finish(.failure(first))
        }
    }
}

/// Asks an identity service for its place, for all calls that wait for it. A request without a response gets another one beside it.
///
/// Such a request is a GET that names no credential, so it may be made again whatever the calls are that wait: nothing of them has been
/// sent yet. The first one has the time of its call, so a slow service is waited for. The one beside it is made anew after each interval,
/// so a service that is back is found soon. It belongs to the loop's queue.
final class PlaceRequest<Place>: Watcher, @unchecked Sendable {
    /// One request with all its steps, such as redirects.
    struct Attempt {
        /// The response must have come by then.
        let deadline: Instant
        /// Of each step.
        let kind: IdentityCallKind
        /// Each step observes it.
        let cancellation = CallCancellation()
    }

    /// What the owner does.
    struct Owner {
        /// Makes a request. The reply comes later, on the loop's queue.
        let ask: (Attempt, _ reply: @escaping (Result<Place, IdentityError>) -> Void) -> Void
        /// A call waits for the place.
        let isAwaited: () -> Bool
        /// Takes the result.
        let finish: (Result<Place, IdentityError>) -> Void
    }

    /// From one request beside the first to the next, at least.
    private static var intervalMin: Duration { .seconds(2) }

    private let http: CurlMulti
    private let loop: EventLoop
    private var requests = PlaceRequests<Place>()
    private var owner: Owner?
    private var first: Attempt?
    private var beside: Attempt?
    private var latestAt = Instant.past
    private var interval: Duration?
    private let silence = Deadline()

    init(over transport: IdentityTransport) {
        (http, loop) = (transport.http, transport.loop)
        super.init()
        silence.owner = self
    }

    /// Makes the first request. None may be in flight.
    func begin(by deadline: Instant, _ owner: Owner) {
        loop.assertIsCurrent()
        requests.begin()
        self.owner = owner
        interval = nil
        let attempt = Attempt(deadline: deadline, kind: .session)
        first = attempt
        send(attempt)
    }

    /// A call waits that wants another request after this time without a response; nil: it wants none.
    func repeatAfter(_ interval: Duration?) {
        loop.assertIsCurrent()
        guard let interval, first != nil else { return }
        self.interval = min(interval, self.interval ?? interval)
        setTimer()
    }

    /// The interval holds for the first request beside as it is: it is `refresh.second_call_after`.
    private func setTimer() {
        guard let interval else { return }
        loop.set(silence, at: latestAt + (beside == nil ? interval : max(interval, Self.intervalMin)))
    }

    /// There has been no response for so long. While no call waits there is no other request; the next call that waits has it made.
    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        guard let owner, owner.isAwaited(), let first, requests.beginBeside() else { return }
        beside?.cancellation.cancel()
        // A request with too little time left is not sent. The end of the first one ends both.
        let least = http.limits.totalLeftMin + .seconds(1)
        let attempt = Attempt(deadline: max(first.deadline, loop.now + least), kind: .second)
        beside = attempt
        send(attempt)
        setTimer()
    }

    private func send(_ attempt: Attempt) {
        latestAt = loop.now
        owner?.ask(attempt) { [self] in handle($0, of: attempt) }
    }

    private func handle(_ result: Result<Place, IdentityError>, of attempt: Attempt) {
        loop.assertIsCurrent()
        let isFirst = attempt.cancellation === first?.cancellation
        // It was given up for another one.
        guard isFirst || attempt.cancellation === beside?.cancellation else { return }
        let hasTime = first.map { loop.now < $0.deadline } ?? false
        switch requests.handle(result, of: isFirst ? .first : .beside, hasTime: hasTime) {
        case .drop: break
        case .wait: if !isFirst { beside = nil }
        case .finish(let result):
            loop.drop(silence)
            for other in [first, beside].compactMap(\.self) where other.cancellation !== attempt.cancellation {
                other.cancellation.cancel()
            }
            let owner = owner
            (first, beside, self.owner) = (nil, nil, nil)
            owner?.finish(result)
        }
    }
}
