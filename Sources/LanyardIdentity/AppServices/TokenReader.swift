import LanyardFoundations

/// Reads App Services' JSON responses on their bytes: no secret becomes a `String`. Unknown members are skipped.
package enum TokenReader {
    /// Why a response cannot be used. A type of its own, because the reader does not know the call: `AppServicesGrant`
    /// makes an `IdentityError` of both.
    package enum ReadError: Error, Equatable {
        /// Not JSON that `JSONReader` accepts.
        case json(JSONError)
        case notAnObject
        /// A required member has another type, is too long, or has characters that it cannot have.
        case unfit(String)
    }

    /// Bytes of a token: the most that a header can carry upstream.
    static let tokenBytesMax = 32 << 10
    /// Bytes of the longest refresh token that is sent to end its session. It cannot be used otherwise beyond `tokenBytesMax`.
    private static let revocableBytesMax = 64 << 10
    private static let idBytesMax = 128
    private static let hostnameBytesMax = 300

    /// Reads a whole response.
    ///
    /// - Throws: `json`, `notAnObject`, or `unfit` for the first member that cannot be used. The service is at fault, or a gateway in
    ///   between.
    package static func read(_ bytes: UnsafeRawBufferPointer) throws(ReadError) -> TokenResponse {
        let (response, error) = readUsable(bytes)
        if let error { throw error }
        return response
    }

    /// Skips unusable members and reads up to the byte where the JSON breaks, because an unusable response may still matter.
    ///
    /// - Returns: the readable part, and the first error.
    static func readUsable(_ bytes: UnsafeRawBufferPointer) -> (response: TokenResponse, error: ReadError?) {
        var response = TokenResponse()
        response.hasOtherContent = !bytes.isEmpty
        var first: ReadError?
        do {
            var reader = JSONReader(bytes)
            guard try reader.next() == .objectStart else { throw ReadError.notAnObject }
            response.hasOtherContent = false
            while case .name(let name) = try reader.next() {
                guard let member = Member.all.first(where: { JSONText.matches(name, of: bytes, $0.name) }) else {
                    try reader.skipValue()
                    continue
                }
                do {
                    try readMember(member, &reader, bytes, &response)
                } catch let error as ReadError {
                    first = first ?? error
                }
            }
            _ = try reader.next()
        } catch let error as JSONError {
            first = first ?? .json(error)
        } catch {
            first = first ?? .notAnObject
        }
        return (response, first)
    }

    private enum Member {
        case accessToken, refreshToken, userID, deviceID, expiresIn, hostname, error, errorCode

        static let all: [(member: Member, name: StaticString)] = [
            (.accessToken, "access_token"), (.refreshToken, "refresh_token"), (.userID, "user_id"),
            (.deviceID, "device_id"), (.expiresIn, "expires_in"), (.hostname, "hostname"), (.error, "error"),
            (.errorCode, "error_code"),
        ]
    }

    private static func readMember(
        _ entry: (member: Member, name: StaticString), _ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer,
        _ response: inout TokenResponse
    ) throws {
        let token = try reader.next()
        if token == .objectStart || token == .arrayStart { try skipRest(of: token, &reader) }
        switch (entry.member, token) {
        case (_, .null): break
        // An empty text is none.
        case (.refreshToken, .string(let text)) where text.range.isEmpty: break
        case (.accessToken, .string(let text)): response.accessToken = try secret(text, bytes, entry.name)
        case (.refreshToken, .string(let text)):
            response.revocableToken = revocable(text, bytes)
            response.refreshToken = try secret(text, bytes, entry.name)
        case (.userID, .string(let text)): response.userID = try plain(text, bytes, idBytesMax, entry.name)
        // Some servers send an empty one. Nothing uses it (app-services.md 2.2).
        case (.deviceID, .string(let text)): response.deviceID = try? plain(text, bytes, idBytesMax, entry.name)
        case (.hostname, .string(let text)): response.hostname = try plain(text, bytes, hostnameBytesMax, entry.name)
        case (.expiresIn, .number(let range)): response.expiresIn = JSONNumber.integer(bytes[range])
        case (.expiresIn, .string(let text)): response.expiresIn = JSONNumber.integer(bytes[text.range])
        case (.error, .string(let text)):
            response.hasError = true
            response.isUnknownApp = statesUnknownApp(text, bytes)
        case (.errorCode, .string(let text)):
            response.hasError = response.hasError || !text.range.isEmpty
            response.errorCode = code(text, bytes)
        // Clients ignore numbers and objects there.
        case (.error, _), (.errorCode, _), (.deviceID, _), (.expiresIn, _), (.userID, _), (.refreshToken, _):
            break
        default: throw ReadError.unfit("\(entry.name) has the wrong type")
        }
    }

    /// The container is open already.
    private static func skipRest(of token: JSONReader.Token, _ reader: inout JSONReader) throws {
        var depth = 1
        while depth > 0 {
            switch try reader.next() {
            case .objectStart, .arrayStart: depth += 1
            case .objectEnd, .arrayEnd: depth -= 1
            case .end: return
            default: break
            }
        }
    }

    private static func secret(
        _ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer, _ name: StaticString
    ) throws -> Secret {
        guard let secret = JSONText.secret(text, of: bytes, countMax: tokenBytesMax) else {
            throw ReadError.unfit("\(name) is larger than 32 KiB")
        }
        guard BearerToken.isValid(secret) else {
            throw ReadError.unfit("\(name) has characters that a bearer token cannot have")
        }
        return secret
    }

    /// A refresh token that a field can carry; nil: there is none, and its session cannot be ended.
    private static func revocable(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) -> Secret? {
        guard let secret = JSONText.secret(text, of: bytes, countMax: revocableBytesMax), secret.count > 0,
            secret.withBytes({ $0.allSatisfy { 0x21..<0x7f ~= $0 } })
        else { return nil }
        return secret
    }

    /// Printable ASCII without space; an empty text is allowed.
    private static func plain(
        _ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer, _ countMax: Int, _ name: StaticString
    ) throws -> String {
        var characters: [UInt8] = []
        var isFit = true
        JSONText.decode(text, of: bytes) { byte in
            isFit = isFit && 0x21..<0x7f ~= byte && characters.count < countMax
            if isFit { characters.append(byte) }
        }
        guard isFit else { throw ReadError.unfit("\(name) is not plain text of at most \(countMax) characters") }
        return String(decoding: characters, as: UTF8.self)
    }

    private static func code(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) -> String? {
        guard 1...64 ~= text.range.count,
            bytes[text.range].allSatisfy({ byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "_"): true
                default: false
                }
            })
        else { return nil }
        return String(decoding: bytes[text.range], as: UTF8.self)
    }

    /// `cannot find app using Client App ID '…'` (app-services.md 1.5).
    private static func statesUnknownApp(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes[text.range].prefix(15).elementsEqual("cannot find app".utf8)
    }
}

/// The members of an App Services response that Lanyard uses, for any status (app-services.md 2.3,
/// app-services.md 3.1, app-services.md 5.2).
package struct TokenResponse: Sendable {
    /// b64token characters only (RFC 6750 §2.1).
    package var accessToken: Secret?
    /// b64token characters only.
    package var refreshToken: Secret?
    /// The refresh token, usable or not, if a field can carry it: it ends the session of an unusable response.
    var revocableToken: Secret?
    /// The account's id: printable ASCII of at most 128 bytes.
    package var userID: String?
    /// Nothing uses it (app-services.md 2.2).
    package var deviceID: String?
    /// Seconds, as some servers send them.
    package var expiresIn: Int64?
    /// The service's origin, in the response to a location request.
    package var hostname: String?
    /// The body is not empty and not an object: a gateway's page, for example.
    var hasOtherContent = false
    /// There is an `error` that is text, or an `error_code`. The text itself is not kept, because it may quote the request.
    package var hasError = false
    /// The `error` says that no such app exists. Only this text must be recognised, because it comes without a code.
    package var isUnknownApp = false
    /// Scrubbed: `[A-Za-z0-9_]{1,64}`. Only `errorCode(without:)` may be shown.
    package var errorCode: String?

    /// Whether the service has made a session, if this is what arrived of a login's response with a status of success.
    var mayBelongToSession: Bool {
        accessToken != nil || revocableToken != nil || userID != nil || (!hasError && !hasOtherContent)
    }

    /// The code if it may be shown: one of the service's, or one without a digit, as its codes are, and without a secret of the call. A
    /// service that quotes another secret quotes a random one, which rarely has letters alone.
    ///
    /// - Parameter echo: of the call.
    func errorCode(without echo: @autoclosure () -> SecretEcho) -> String? {
        guard let errorCode else { return nil }
        if AppServicesExplanation.isKnown(errorCode) { return errorCode }
        return errorCode.utf8.contains(where: { 0x30...0x39 ~= $0 }) || echo().isIn(name: errorCode) ? nil : errorCode
    }
}
