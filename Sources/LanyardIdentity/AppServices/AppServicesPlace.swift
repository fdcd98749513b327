import LanyardFoundations
import LanyardSessionInterface

/// What is known of a service's origin, and when it is asked for.
///
/// An origin that was read serves until another one comes: the location request may fail while the service itself responds.
struct AppServicesPlace {
    /// After a failure the former origin serves for so long before it is asked for again.
    static let retryInterval = Duration.seconds(300)
    /// Refusals that are remembered at once. Each is of another credential.
    private static let unconfirmedMax = 1024

    /// From the latest location response; nil: none has come yet.
    private(set) var origin: ServiceOrigin?
    /// The service may have moved since.
    private var isDoubted = false
    /// Before, a doubted origin serves without a request, because the last one has failed.
    private var retryAt = Instant.past
    /// Credentials that a remembered origin has refused while the location could not be asked, with what it said. They are not sent again
    /// before the location has come.
    private(set) var unconfirmed: [[UInt8]: String] = [:]

    init() {}

    init(_ origin: ServiceOrigin) { self.origin = origin }

    /// The origin that serves a call now without a request; nil: it is to be asked for.
    func served(at now: Instant) -> ServiceOrigin? { isDoubted && now >= retryAt ? nil : origin }

    mutating func recordFailure(at now: Instant) { retryAt = now + Self.retryInterval }

    /// What is known does not work, so the next call asks although the last request has failed.
    mutating func doubt() { (isDoubted, retryAt) = (true, .past) }

    mutating func noteUnconfirmed(_ credential: [UInt8], _ message: String) {
        // A credential file that changes all the time must not use up the memory.
        if unconfirmed.count >= Self.unconfirmedMax, let some = unconfirmed.keys.first { unconfirmed[some] = nil }
        unconfirmed[credential] = message
    }
}

extension IdentityError {
    /// This error of a request for the service's place, in reply to a call that was not made, or not made again.
    var ofPlace: IdentityError {
        var error = self
        error.isOfPlace = true
        return error
    }

    /// This error of a request for the service's place, which leaves a refusal open.
    func leavingUnconfirmed(_ refusal: String) -> IdentityError {
        var error = self
        error.message += "; so this is not taken for final: \(refusal)"
        return error
    }
}
