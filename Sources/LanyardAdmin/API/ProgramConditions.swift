import LanyardFoundations
import LanyardSessionInterface

/// What an operator of the process must know now, beside its users: the members of `/v1/status` that are empty while all is well.
package struct ProgramConditions: Sendable {
    /// A shutdown in progress.
    package struct Stop: Sendable {
        /// The listeners of data take no connection any more. Before that, `shutdown.drain_min` lasts.
        package var areListenersClosed: Bool
        /// The process ends then at the latest, apart from some seconds for the sessions.
        package var endsBy: Instant

        package init(areListenersClosed: Bool, endsBy: Instant) {
            self.areListenersClosed = areListenersClosed
            self.endsBy = endsBy
        }
    }

    /// The latest reload, which has failed.
    package struct FailedReload: Equatable, Sendable {
        /// When it failed.
        package var at: WallTime
        /// Lines as `lanyard check` prints them; never empty.
        package var errors: [String]

        package init(at time: WallTime, errors: [String]) {
            at = time
            self.errors = errors
        }
    }

    /// A certificate that Lanyard shows to clients, upstreams or identity services, or that one of these servers has shown.
    package struct Certificate: Equatable, Sendable {
        /// Whose it is, as in the metric `lanyard_tls_certificate_expiry_timestamp_seconds`: `listener 127.0.0.1:7400`.
        package var owner: String
        /// The file of the chain; nil: it is another machine's.
        package var file: String?
        /// When the first certificate of the chain ends.
        package var expiresAt: WallTime

        package init(owner: String, file: String?, expiresAt: WallTime) {
            self.owner = owner
            self.file = file
            self.expiresAt = expiresAt
        }
    }

    /// A call to an identity service that is no session's own and has had no response for some seconds.
    package struct SlowCall: Sendable {
        /// The name of the identity.
        package var identity: String
        /// The call.
        package var progress: CallProgress

        package init(identity: String, progress: CallProgress) {
            self.identity = identity
            self.progress = progress
        }
    }

    /// `limits.connections_max` as it is configured, where the limit of descriptors does not allow it.
    package struct LoweredLimit: Equatable, Sendable {
        package var configured: Int
        package var effective: Int
        package var descriptorsMax: Int

        package init(configured: Int, effective: Int, descriptorsMax: Int) {
            (self.configured, self.effective, self.descriptorsMax) = (configured, effective, descriptorsMax)
        }
    }

    /// The status names certificates that end within this time.
    package static let certificateNotice = Duration.seconds(14 * 86_400)

    /// nil: Lanyard is not stopping.
    package var stop: Stop?
    /// Client connections of the data listeners. In a drain each of them has a request in flight, once the kept ones have ended.
    package var clientConnectionCount = 0
    /// nil: the store works, or there is none.
    package var storeFailure: StoreFailure?
    /// nil: the latest reload has succeeded, or there was none.
    package var failedReload: FailedReload?
    /// nil: the configured limit applies.
    package var loweredLimit: LoweredLimit?
    /// Revocations and calls about accounts. Those of sessions are with their users.
    package var slowCalls: [SlowCall] = []
    /// All, whenever they end.
    package var certificates: [Certificate] = []

    package init() {}

    /// Those that end soon, or have ended: first the one that ends first.
    func expiringCertificates(at now: WallTime) -> [Certificate] {
        certificates.filter { $0.expiresAt <= now + Self.certificateNotice }.sorted { $0.expiresAt < $1.expiresAt }
    }
}

extension AdminResponses {
    /// The members of `/v1/status` about these conditions.
    static func write(
        _ conditions: ProgramConditions, now: Instant, wallNow: WallTime, into body: inout JSONWriter
    ) {
        body.key("stopping")
        if let stop = conditions.stop {
            body.beginObject()
            body.key("listeners_closed")
            body.bool(stop.areListenersClosed)
            body.key("client_connections")
            body.number(conditions.clientConnectionCount)
            body.key("seconds_left")
            body.number(max(Int((stop.endsBy - now).inSeconds), 0))
            body.endObject()
        } else {
            body.null()
        }
        body.key("store_failure")
        if let failure = conditions.storeFailure {
            body.beginObject()
            body.key("path")
            body.string(failure.path)
            body.key("since")
            body.time(failure.since)
            body.key("error")
            body.string(failure.message)
            body.endObject()
        } else {
            body.null()
        }
        body.key("failed_reload")
        if let reload = conditions.failedReload {
            body.beginObject()
            body.key("at")
            body.time(reload.at)
            body.key("errors")
            body.beginArray()
            for error in reload.errors { body.string(error) }
            body.endArray()
            body.endObject()
        } else {
            body.null()
        }
        body.key("lowered_limit")
        if let limit = conditions.loweredLimit {
            body.beginObject()
            body.key("configured")
            body.number(limit.configured)
            body.key("effective")
            body.number(limit.effective)
            body.key("descriptors_max")
            body.number(limit.descriptorsMax)
            body.endObject()
        } else {
            body.null()
        }
        body.key("slow_calls")
        body.beginArray()
        for call in conditions.slowCalls {
            body.beginObject()
            body.key("identity")
            body.string(call.identity)
            writeMembers(of: call.progress, into: &body)
            body.endObject()
        }
        body.endArray()
        body.key("expiring_certificates")
        body.beginArray()
        for certificate in conditions.expiringCertificates(at: wallNow) {
            body.beginObject()
            body.key("certificate")
            body.string(certificate.owner)
            body.key("file")
            write(certificate.file, into: &body)
            body.key("expires_at")
            body.time(certificate.expiresAt)
            body.endObject()
        }
        body.endArray()
    }
}
