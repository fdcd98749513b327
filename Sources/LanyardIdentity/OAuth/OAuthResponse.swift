import LanyardFoundations
import LanyardSettings

/// What Lanyard uses of an authorization server's response, for any status (RFC 6749 §5).
struct OAuthResponse: Sendable {
    /// b64token characters only (RFC 6750 §2.1), for Salesforce also `!`.
    var accessToken: Secret?
    /// Visible ASCII (RFC 6749 appendix A.17).
    var refreshToken: Secret?
    /// OpenID Connect Core 3.1.3.3. Visible ASCII.
    var idToken: Secret?
    /// The refresh token that the request has not had itself: the service has made it.
    var newRefreshToken: Secret? { refreshToken.flatMap { sent.contains($0) ? nil : $0 } }
    /// As it came. Servers differ in its case (RFC 6749 §5.1: it is case insensitive).
    var tokenType: String?
    /// Seconds.
    var expiresIn: Int64?
    /// Of the refresh token, in seconds, as Keycloak and others send it. 0 and less say nothing.
    var refreshExpiresIn: Int64?
    /// `scope` (RFC 6749 §3.3): a text, or an array of texts as some servers send it. nil: there is none, or it cannot be read.
    var scopes: Set<String>?
    /// What states an error, by JSON pointer: `/error`, `/error_code`, `/code` and others. Only texts of
    /// `[A-Za-z0-9_.-]{1,64}`, and numbers as text. An array has several.
    var errors: [String: [String]] = [:]
    /// There is an `error`, or `ok` is false. An `error` that is null, false, 0 or an empty text is none.
    var hasError = false
    /// The response states a failure, by a text or by a flag, and no token in another place that says otherwise: the service has made
    /// none that Lanyard lacks.
    var namesError: Bool { isFailure && !hidesToken }
    /// Words of an error in other places than those of `errors`, such as the members of an object in place of its text.
    private(set) var otherNames: [String] = []
    /// `error` is a text or true, an object or a list with a text that says what is wrong, or another member that servers name errors by.
    private var isFailure = false
    /// A token is there that is not read: in another member, or one that cannot be used.
    private var hidesToken = false
    /// What a poll of a device login means, in the words of any member (RFC 8628 §3.5).
    private var deviceState: String?
    /// The body is not empty and not an object: a gateway's page, for example.
    var hasOtherContent = false
    /// The body is empty.
    var isEmpty = false

    /// The body is an object that has come as a whole.
    var isObject: Bool { !isEmpty && !hasOtherContent && !isBroken }
    /// The body ends inside the object, or something else follows behind it.
    var isBroken = false

    /// Why the response is not a usable one; nil: it is. The rest of it is what could be read.
    var defect: String?

    /// Bytes of an access token: the most that a header can carry upstream.
    static let accessTokenBytesMax = TokenReader.tokenBytesMax
    /// Bytes of a refresh token, which only the body of a form carries.
    static let refreshTokenBytesMax = 64 << 10

    private let profile: OAuthProfile
    private let sent: [Secret]

    /// Reads what the bytes hold, up to the byte where they are no JSON.
    ///
    /// - Parameter sent: the secrets of the request. Services repeat it beside an error: a token that is one of these is no other one.
    init(_ bytes: UnsafeRawBufferPointer, profile: OAuthProfile = .generic, sent: [Secret] = []) {
        (self.profile, self.sent) = (profile, sent)
        isEmpty = bytes.allSatisfy { $0 == 0x20 || 0x09...0x0d ~= $0 }
        guard !isEmpty else {
            defect = "it is empty"
            return
        }
        hasOtherContent = true
        do throws(JSONError) {
            var reader = JSONReader(bytes)
            guard try reader.next() == .objectStart else {
                defect = "not a JSON object"
                return
            }
            hasOtherContent = false
            while case .name(let name) = try reader.next() { try readMember(name, &reader, bytes) }
            _ = try reader.next()
        } catch {
            isBroken = true
            defect = defect ?? "not JSON (\(error.kind) at byte \(error.offset))"
        }
    }

    private enum Member: CaseIterable {
        case accessToken, refreshToken, idToken, tokenType, expiresIn, refreshExpiresIn, refreshTokenExpiresIn, error,
            errorDescription, errorCode, code, suberror, errorSubtype, errorCodes, oktaErrorCode, awsType, ok, scope,
            success,
            errors, detail, message, shortMessage

        var name: StaticString {
            switch self {
            case .accessToken: "access_token"
            case .refreshToken: "refresh_token"
            case .idToken: "id_token"
            case .tokenType: "token_type"
            case .expiresIn: "expires_in"
            case .refreshExpiresIn: "refresh_expires_in"
            case .refreshTokenExpiresIn: "refresh_token_expires_in"
            case .error: "error"
            case .errorDescription: "error_description"
            case .errorCode: "error_code"
            case .code: "code"
            case .suberror: "suberror"
            case .errorSubtype: "error_subtype"
            case .errorCodes: "error_codes"
            case .oktaErrorCode: "errorCode"
            case .awsType: "__type"
            case .ok: "ok"
            case .scope: "scope"
            case .success: "success"
            case .errors: "errors"
            case .detail: "detail"
            case .message: "message"
            case .shortMessage: "msg"
            }
        }
    }

    private mutating func readMember(
        _ name: JSONReader.Text, _ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer
    ) throws(JSONError) {
        guard let member = Member.allCases.first(where: { JSONText.matches(name, of: bytes, $0.name) }) else {
            return try skipValue(of: name, &reader, bytes)
        }
        let token = try reader.next()
        if token == .arrayStart, member == .errorCodes { return try readErrorCodes(&reader, bytes) }
        if token == .arrayStart, member == .scope { return scopes = try OAuthScopes.list(&reader, bytes) }
        if token == .objectStart || token == .arrayStart {
            let isNamed = try readWords(&reader, bytes, ofToken: member == .accessToken || member == .refreshToken)
            if member == .error || member == .errors { isFailure = isFailure || isNamed }
        }
        let text: JSONReader.Text? = if case .string(let text) = token { text } else { nil }
        switch member {
        case .accessToken:
            guard token != .null else { return }
            guard let text else { return note("access_token is not text") }
            readAccessToken(text, bytes)
        case .refreshToken:
            // No text is none, as false or an empty list from PHP. A refused response would lose the access token as well.
            if let text { readRefreshToken(text, bytes) }
        case .idToken:
            idToken = text.flatMap { JSONText.secret($0, of: bytes, countMax: Self.refreshTokenBytesMax) }
        case .tokenType: tokenType = text.flatMap { Self.word($0, bytes) }
        case .expiresIn: expiresIn = Self.integer(token, bytes)
        case .refreshExpiresIn, .refreshTokenExpiresIn:
            refreshExpiresIn = Self.integer(token, bytes) ?? refreshExpiresIn
        case .error:
            hasError = hasError || Self.statesError(token, bytes)
            isFailure = isFailure || token == .bool(true) || text.map { !$0.range.isEmpty } ?? false
            noteError(member, text, bytes)
        case .errorCode, .oktaErrorCode, .awsType:
            isFailure = isFailure || text.map { !$0.range.isEmpty } ?? false
            noteError(member, text, bytes)
        case .code:
            noteError(member, text, bytes)
            // Successes have a code, too: "ok", "0".
            guard let name = error(at: "/code"), OAuthErrorRow.isKnown(name) || OAuthErrorRow.isPassing(name) else {
                break
            }
            isFailure = true
            otherNames.append(name)
        case .errorDescription, .suberror, .errorSubtype, .errorCodes: noteError(member, text, bytes)
        case .ok:
            guard token == .bool(false) else { break }
            (hasError, isFailure) = (true, true)
        case .success: isFailure = isFailure || token == .bool(false)
        case .errors: break
        case .detail, .message, .shortMessage: noteDeviceState(text, bytes)
        case .scope: scopes = text.flatMap { OAuthScopes.read($0, bytes) }
        }
    }

    /// Some servers write the member beside tokens, too, with nothing in it.
    private static func statesError(_ token: JSONReader.Token, _ bytes: UnsafeRawBufferPointer) -> Bool {
        switch token {
        case .null, .bool(false): false
        case .string(let text): !text.range.isEmpty
        case .number(let range): JSONNumber.integer(bytes[range]) != 0
        default: true
        }
    }

    private mutating func noteError(_ member: Member, _ text: JSONReader.Text?, _ bytes: UnsafeRawBufferPointer) {
        errors["/\(member.name)"] = text.flatMap { Self.word($0, bytes) }.map { [$0] }
        noteDeviceState(text, bytes)
    }

    /// Members whose text tells an error within an object or a list.
    private static let telling: [StaticString] = [
        "code", "status", "type", "reason", "error", "message", "msg", "error_description", "description", "detail",
        "title",
    ]
    private static let tokenNames: [StaticString] = ["access_token", "refresh_token", "accessToken", "refreshToken"]
    private static let otherNamesMax = 8

    /// Reads a container that is open already.
    ///
    /// - Parameter isToken: it is the value of a token's member: each text in it is one.
    /// - Returns: whether a text in it tells an error: an element of a list, or a member with such a name.
    private mutating func readWords(
        _ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer, ofToken isToken: Bool = false
    ) throws(JSONError) -> Bool {
        var (depth, isTelling, isNamed) = (1, true, false)
        // The latest name is a token's, and how deep the container is that is the value of such a member.
        var isTokensValue = false
        var tokenDepth: Int? = isToken ? 1 : nil
        while depth > 0 {
            let token = try reader.next()
            switch token {
            case .objectStart, .arrayStart:
                depth += 1
                if isTokensValue, tokenDepth == nil { tokenDepth = depth }
            case .objectEnd, .arrayEnd:
                if tokenDepth == depth { tokenDepth = nil }
                depth -= 1
            case .name(let name):
                isTelling = Self.telling.contains { JSONText.matches(name, of: bytes, $0) }
                isTokensValue = Self.tokenNames.contains { JSONText.matches(name, of: bytes, $0) }
                continue
            case .string(let text) where !text.range.isEmpty:
                if isTokensValue || tokenDepth != nil { noteToken(text, bytes) }
                guard isTelling else { break }
                isNamed = true
                noteDeviceState(text, bytes)
                if otherNames.count < Self.otherNamesMax, let word = Self.word(text, bytes) { otherNames.append(word) }
            case .end: return isNamed
            default: break
            }
            isTokensValue = false
        }
        return isNamed
    }

    /// A token that is not read. One that the request has had is known.
    private mutating func noteToken(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) {
        guard !hidesToken else { return }
        let token = JSONText.secret(text, of: bytes, countMax: Self.refreshTokenBytesMax)
        hidesToken = token.map { !sent.contains($0) } ?? true
    }

    /// Skips the value of another member. A token in it was given out all the same.
    private mutating func skipValue(
        of name: JSONReader.Text, _ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer
    ) throws(JSONError) {
        switch try reader.next() {
        case .objectStart, .arrayStart:
            let names = otherNames
            _ = try readWords(&reader, bytes)
            otherNames = names
        case .string(let text) where !text.range.isEmpty:
            if Self.tokenNames.contains(where: { JSONText.matches(name, of: bytes, $0) }) { noteToken(text, bytes) }
        default: break
        }
    }

    private mutating func noteDeviceState(_ text: JSONReader.Text?, _ bytes: UnsafeRawBufferPointer) {
        guard let text, deviceState == nil else { return }
        deviceState = DeviceStateText(text, of: bytes).state
    }

    /// Entra's numbers of causes. The array is open already.
    private mutating func readErrorCodes(_ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer) throws(JSONError)
    {
        var codes: [String] = []
        while true {
            switch try reader.next() {
            case .number(let range) where codes.count < 16:
                codes += JSONNumber.integer(bytes[range]).map { ["\($0)"] } ?? []
            case .objectStart, .arrayStart: try Self.skipRest(of: &reader)
            case .arrayEnd, .end: return errors["/error_codes"] = codes
            default: break
            }
        }
    }

    /// The first text at a pointer.
    func error(at pointer: String) -> String? { errors[pointer]?.first }

    /// The error of a poll of a device login (RFC 8628 §3.5). Servers have it in other words or members, and under another code:
    /// authgent-server 0.3.4 as the description of an `invalid_grant`. What another code says plainly counts.
    var deviceError: String? {
        let error = error(at: "/error")
        // Tokens end the polls, whatever stands beside them.
        let deviceState = accessToken == nil && refreshToken == nil && !hidesToken ? self.deviceState : nil
        switch error {
        case "authorization_pending", "slow_down", "expired_token", "access_denied", "authorization_declined":
            return error
        case nil, "invalid_grant", "invalid_request": return deviceState ?? error
        case let error?: return OAuthErrorRow.isKnown(error) ? error : deviceState ?? error
        }
    }

    /// The container is open already.
    static func skipRest(of reader: inout JSONReader) throws(JSONError) {
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

    private mutating func note(_ reason: String) { defect = defect ?? reason }

    private mutating func readAccessToken(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) {
        guard let secret = JSONText.secret(text, of: bytes, countMax: Self.accessTokenBytesMax) else {
            hidesToken = true
            return note("access_token is larger than 32 KiB")
        }
        guard BearerToken.isValid(secret, isSalesforce: profile == .salesforce) else {
            if secret.count > 0 { noteToken(text, bytes) }
            return note("access_token has characters that a bearer token cannot have")
        }
        accessToken = secret
    }

    private mutating func readRefreshToken(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) {
        guard let secret = JSONText.secret(text, of: bytes, countMax: Self.refreshTokenBytesMax) else {
            hidesToken = true
            return note("refresh_token is larger than 64 KiB")
        }
        guard secret.count > 0 else { return }
        guard secret.withBytes({ $0.allSatisfy { 0x20..<0x7f ~= $0 } }) else {
            noteToken(text, bytes)
            return note("refresh_token has characters that a token cannot have")
        }
        refreshToken = secret
    }

    /// A number, or a number as text; nil: something else, such as a fraction in exponents.
    static func integer(_ token: JSONReader.Token, _ bytes: UnsafeRawBufferPointer) -> Int64? {
        switch token {
        case .number(let range): JSONNumber.integer(bytes[range])
        case .string(let text): JSONNumber.integer(bytes[text.range])
        default: nil
        }
    }

    /// `[A-Za-z0-9_.-]{1,64}`; nil: something else.
    private static func word(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) -> String? {
        let word = bytes[text.range]
        guard 1...64 ~= word.count,
            word.allSatisfy({ byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "_"), UInt8(ascii: "."), UInt8(ascii: "-"):
                    true
                default: false
                }
            })
        else { return nil }
        return String(decoding: word, as: UTF8.self)
    }
}
