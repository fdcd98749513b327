import LanyardFoundations
import LanyardSessionInterface

/// The polling of a device login, from the response with the codes to its end (RFC 8628 §3.4, §3.5). It decides; `DeviceLogin` performs.
struct DeviceAuthorization {
    /// What one poll has shown.
    enum Poll: Equatable {
        case granted
        /// The user has not decided yet.
        case pending(retryAfter: Duration?)
        /// The same, and the server wants longer intervals.
        case slowDown(retryAfter: Duration?)
        /// No response, or none that decides.
        case unreachable(retryAfter: Duration?)
        case refused(IdentityError)
    }

    enum Step: Equatable {
        /// Call `due` then.
        case wait(until: Instant)
        /// Ask the token endpoint, and call `polled`.
        case poll
        case end(End)
    }

    enum End: Equatable {
        case granted
        case expired
        case refused(IdentityError)
    }

    /// RFC 8628 §3.5: of each `slow_down`.
    static let slowDownStep = Duration.seconds(5)
    /// The longest interval that lost polls lead to.
    static let backoffMax = Duration.seconds(60)

    /// Later the code is worth nothing.
    let expiresAt: Instant
    /// Between polls, as the server wants it.
    private(set) var interval: Duration
    /// Polls in a row that nothing came back from.
    private var failures = 0

    /// - Parameter now: when the request for the codes was sent.
    init(lifetime: Duration, interval: Duration, now: Instant) {
        expiresAt = now + lifetime
        self.interval = interval
    }

    /// The first step. A user needs some seconds at least, so the first poll waits, too.
    func begin(at now: Instant) -> Step { wait(interval, now) }

    /// The instant of `wait` has come.
    func handleDue(at now: Instant) -> Step { now >= expiresAt ? .end(.expired) : .poll }

    mutating func handle(_ poll: Poll, at now: Instant) -> Step {
        switch poll {
        case .granted: return .end(.granted)
        case .refused(let error): return .end(.refused(error))
        case .pending(let retryAfter):
            failures = 0
            return wait(max(interval, retryAfter ?? .zero), now)
        case .slowDown(let retryAfter):
            failures = 0
            interval = interval + Self.slowDownStep
            return wait(max(interval, retryAfter ?? .zero), now)
        case .unreachable(let retryAfter):
            // RFC 8628 §3.5: a time-out makes a client poll less often.
            failures = min(failures + 1, 16)
            let backoff = min(interval * (1 << failures), max(interval, Self.backoffMax))
            return wait(max(backoff, retryAfter ?? .zero), now)
        }
    }

    /// At the end of the code nothing is asked any more.
    private func wait(_ time: Duration, _ now: Instant) -> Step {
        now >= expiresAt ? .end(.expired) : .wait(until: min(now + time, expiresAt))
    }
}

/// What a device authorization endpoint responds (RFC 8628 §3.2).
struct DeviceResponse {
    private static let lifetimeMax: Int64 = 86_400
    private static let intervalMax: Int64 = 300
    private static let userCodeBytesMax = 64
    private static let uriBytesMax = 2048

    let deviceCode: Secret
    let userCode: String
    let verificationURI: String
    let completeURI: String?
    let lifetime: Duration
    let interval: Duration

    /// Why a response cannot be used. A type of its own: the caller adds the status.
    struct ResponseError: Error, Equatable { let reason: String }

    init(_ bytes: UnsafeRawBufferPointer) throws(ResponseError) {
        var fields = Fields()
        let read: Result<Void, JSONError> = Result { () throws(JSONError) in try fields.read(bytes) }
        if case .failure(let error) = read {
            throw ResponseError(reason: "not JSON (\(error.kind) at byte \(error.offset))")
        }
        guard fields.isObject else { throw ResponseError(reason: "not a JSON object") }
        guard let deviceCode = fields.deviceCode, deviceCode.count > 0 else {
            throw ResponseError(reason: "there is no device_code")
        }
        guard let userCode = fields.texts["user_code"], userCode.utf8.count <= Self.userCodeBytesMax else {
            throw ResponseError(reason: "there is no user_code that can be shown")
        }
        // Google's name comes second.
        guard let uri = fields.texts["verification_uri"] ?? fields.texts["verification_url"], Self.isWeb(uri) else {
            throw ResponseError(reason: "there is no verification_uri that is an http or https URL")
        }
        guard let seconds = fields.expiresIn, seconds > 0 else { throw ResponseError(reason: "there is no expires_in") }
        (self.deviceCode, self.userCode, verificationURI) = (deviceCode, userCode, uri)
        completeURI = (fields.texts["verification_uri_complete"]).flatMap { Self.isWeb($0) ? $0 : nil }
        lifetime = .seconds(min(seconds, Self.lifetimeMax))
        interval = .seconds(min(max(fields.interval ?? 5, 1), Self.intervalMax))
    }

    /// The same if the user may see it: no text has a secret of the call.
    func checked(without sent: [Secret]) -> Result<DeviceResponse, ResponseError> {
        let echo = SecretEcho(ofWhole: sent)
        let hasSecret = [userCode, verificationURI, completeURI].compactMap(\.self).contains { text in
            Array(text.utf8).withUnsafeBytes { echo.isIn($0) }
        }
        return hasSecret
            ? .failure(ResponseError(reason: "its codes or addresses repeat a secret of the client")) : .success(self)
    }

    /// A user is led there: another scheme would have a program of the user's machine act on it, and user info would hide the host.
    private static func isWeb(_ uri: String) -> Bool {
        uri.utf8.allSatisfy { 0x21..<0x7f ~= $0 && $0 != UInt8(ascii: "\\") }
            && ServiceOrigin(base: String(uri.prefix { $0 != "?" && $0 != "#" })) != nil
    }

    private struct Fields {
        var isObject = false
        var deviceCode: Secret?
        /// Visible ASCII and blanks.
        var texts: [String: String] = [:]
        var expiresIn: Int64?
        var interval: Int64?

        mutating func read(_ bytes: UnsafeRawBufferPointer) throws(JSONError) {
            var reader = JSONReader(bytes)
            guard try reader.next() == .objectStart else { return }
            isObject = true
            while case .name(let name) = try reader.next() {
                let names: [StaticString] = [
                    "device_code", "user_code", "verification_uri", "verification_url", "verification_uri_complete",
                    "expires_in", "interval",
                ]
                guard let known = names.first(where: { JSONText.matches(name, of: bytes, $0) }) else {
                    try reader.skipValue()
                    continue
                }
                try readValue(known.description, &reader, bytes)
            }
            _ = try reader.next()
        }

        private mutating func readValue(
            _ name: String, _ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer
        ) throws(JSONError) {
            let token = try reader.next()
            if token == .objectStart || token == .arrayStart { return try OAuthResponse.skipRest(of: &reader) }
            switch (name, token) {
            case ("expires_in", _): expiresIn = Self.integer(token, bytes)
            case ("interval", _): interval = Self.integer(token, bytes)
            case ("device_code", .string(let text)):
                deviceCode = JSONText.secret(text, of: bytes, countMax: SecretFile.bytesMax)
            case (_, .string(let text)):
                var characters: [UInt8] = []
                JSONText.decode(text, of: bytes) { if characters.count <= uriBytesMax { characters.append($0) } }
                guard 1...uriBytesMax ~= characters.count, characters.allSatisfy({ 0x20..<0x7f ~= $0 }) else { return }
                texts[name] = String(decoding: characters, as: UTF8.self)
            default: break
            }
        }

        private static func integer(_ token: JSONReader.Token, _ bytes: UnsafeRawBufferPointer) -> Int64? {
            switch token {
            case .number(let range): JSONNumber.integer(bytes[range])
            case .string(let text): JSONNumber.integer(bytes[text.range])
            default: nil
            }
        }
    }
}
