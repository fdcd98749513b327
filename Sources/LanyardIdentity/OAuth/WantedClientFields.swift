import LanyardFoundations
import LanyardSettings

/// Fields of the client that a server wants in the form although they prove nothing: servers on the `mcp` SDK do. A call that may lack one
/// is repeated once with it. What is accepted then is sent from the first in later calls.
struct WantedClientFields: Equatable {
    /// `client_id` beside HTTP Basic, whose head names the client already.
    var id = false
    /// An empty `client_secret` of a revocation, whose client has none or shows it elsewhere.
    var emptySecret = false

    /// A form with these fields was taken: the call was successful, or the server speaks of the grant, and no more of the client.
    func isAccepted(_ outcome: Result<CurlResponse, CurlError>, _ profile: OAuthProfile) -> Bool {
        guard case .success(let response) = outcome else { return false }
        let decoded = response.body.withBytes { OAuthResponse($0) }
        if 200..<300 ~= response.status, !decoded.hasError { return true }
        guard 200..<300 ~= response.status || 400..<500 ~= response.status else { return false }
        switch OAuthErrorRow.match(decoded, status: response.status, profile: profile) {
        case .grant, .user: return true
        case .client, .request, .policy, .retry, nil:
            return ["authorization_pending", "slow_down"].contains(decoded.deviceError)
        }
    }
}

/// What an identity has learned of the fields that its server wants. It lives as long as the identity: a reload that changes that begins
/// anew.
struct ClientFieldMemory {
    /// What a call sends, which decides about its repetition.
    struct Call {
        var isRevocation = false
        /// It has a password, a code, or a token that may work once: a refusal without a known error may have used it up or counted it.
        var isSpendable = false
    }

    private enum Field { case id, emptySecret }

    /// What the server wants in each form.
    private(set) var wanted = WantedClientFields()
    /// Refusals that the field did not change.
    private var vain: [Field: Set<ClientFieldRefusal.Kind>] = [:]
    /// Of the client's file when they came.
    private var secret: Secret?

    /// Records what a response says of the fields.
    ///
    /// - Parameters:
    ///   - trial: the fields that the call was repeated with; nil: it was the first.
    ///   - proof: what the call had.
    /// - Returns: the fields for the repetition of the call; nil: there is none. A field is tried once in a call, and not again after a
    ///   refusal of the kind that a trial has met as well.
    mutating func update(
        from outcome: Result<CurlResponse, CurlError>, trying trial: WantedClientFields?, by proof: ClientProof,
        of settings: IdentitySettings.OAuth, _ call: Call
    ) -> WantedClientFields? {
        if secret != proof.secret { (secret, vain) = (proof.secret, [:]) }
        let refusal = ClientFieldRefusal(outcome, of: settings, sent: proof.sent)
        if let refusal {
            var more = proof.wanted
            if settings.takesClientID, refusal.namesID, mayTry(.id, after: refusal, call) { more.id = true }
            if call.isRevocation, settings.takesEmptySecret, refusal.namesSecret,
                mayTry(.emptySecret, after: refusal, call)
            {
                more.emptySecret = true
            }
            if more != proof.wanted { return more }
        }
        guard let trial else { return nil }
        if trial.isAccepted(outcome, settings.profile) {
            wanted.id = wanted.id || trial.id
            wanted.emptySecret = wanted.emptySecret || trial.emptySecret
        } else if let refusal, refusal.kind.means != .client {
            // A refused client is looked at before its grant: to ask again costs nothing, and the server may know the client by then.
            if trial.id, !wanted.id, refusal.namesID { vain[.id, default: []].insert(refusal.kind) }
            if trial.emptySecret, !wanted.emptySecret, refusal.namesSecret {
                vain[.emptySecret, default: []].insert(refusal.kind)
            }
        }
        return nil
    }

    private func mayTry(_ field: Field, after refusal: ClientFieldRefusal, _ call: Call) -> Bool {
        if call.isSpendable, refusal.kind.means == nil, !refusal.kind.isRequest { return false }
        return vain[field]?.contains(refusal.kind) != true
    }
}

/// A refusal that may be of the form: none of the grant or the user, and none that asks for another try.
private struct ClientFieldRefusal {
    /// What makes a refusal the same one as another.
    struct Kind: Hashable {
        let status: Int
        /// nil: no known error.
        let means: OAuthErrorClass?
        /// It says that a field of the client is missing.
        let isRequest: Bool
    }

    let kind: Kind
    /// Each server has its own words for what it misses, so the field's name counts, in whatever member or page.
    let namesID: Bool
    let namesSecret: Bool

    /// nil: another response.
    init?(_ outcome: Result<CurlResponse, CurlError>, of settings: IdentitySettings.OAuth, sent: [Secret]) {
        guard case .success(let response) = outcome else { return nil }
        let decoded = response.body.withBytes { OAuthResponse($0, sent: sent) }
        // A success that brings tokens beside an error is one, and the refresh token may be used up.
        let isErrorInSuccess =
            200..<300 ~= response.status && decoded.hasError && decoded.namesError && decoded.accessToken == nil
            && decoded.refreshToken == nil
        guard [400, 401, 403, 422].contains(response.status) || isErrorInSuccess else { return nil }
        let means = OAuthErrorRow.match(decoded, status: response.status, profile: settings.profile)
        switch means {
        case .client, .request, .policy, nil: break
        case .grant, .user, .retry: return nil
        }
        let found = response.body.withBytes { body in
            let text = ClientFieldText(body, clientID: settings.clientID)
            let (id, secret) = (text.place(of: "id"), text.place(of: "secret"))
            let isMissed = id == .missed || secret == .missed
            return (id != nil, secret != nil, isMissed || (id == .named || secret == .named) && text.hasRequest)
        }
        guard found.0 || found.1 else { return nil }
        (namesID, namesSecret) = (found.0, found.1)
        kind = Kind(status: response.status, means: means, isRequest: found.2)
    }
}

/// A body in which names of the client's fields are looked for, in any case of letters: `client_id`, `client-id`, "client ID", `clientId`.
/// It may repeat secrets, so nothing of it is copied.
private struct ClientFieldText {
    /// How a text has a name.
    enum Place {
        /// The client's own id follows: the server knows it.
        case known
        case named
        /// As an empty value, or with a question mark.
        case missed
    }

    /// Bytes of a body in which they are looked for.
    private static let bodyBytesMax = 16 << 10
    /// How servers say that something is not there.
    private static let requests: [StaticString] = [
        "missing", "requir", "need", "must", "blank", "empty", "absent", " lack", " expected", "no client",
        "without client",
        "not provided", "not present", "not given", "not sent", "not set", "not supplied", "not included",
        "not specified",
    ]

    private let body: Slice<UnsafeRawBufferPointer>
    private let ownIDs: [Secret]

    init(_ body: UnsafeRawBufferPointer, clientID: String) {
        self.body = body.prefix(Self.bodyBytesMax)
        var plain = SecretBuffer()
        plain.append(clientID)
        var encoded = SecretBuffer()
        FormBody.encode(clientID, into: &encoded)
        ownIDs = [plain.seal(), encoded.seal()]
    }

    var hasRequest: Bool { body.indices.contains { place in Self.requests.contains { matches($0, at: place) } } }

    /// nil: the name is not there. Of several places the one counts that says most.
    ///
    /// - Parameter end: of the name, in small letters.
    func place(of end: StaticString) -> Place? {
        var found: Place?
        for start in body.indices where matches("client", at: start) {
            let separators: [StaticString] = ["_", "-", " ", "\\u005f", ""]
            for separator in separators {
                let tail = start + 6 + separator.utf8CodeUnitCount
                guard matches(separator, at: start + 6), matches(end, at: tail) else { continue }
                let next = tail + end.utf8CodeUnitCount
                guard next >= body.endIndex || !Self.isLetter(body[next]) else { continue }
                switch self.next(at: next) {
                case .missed: return .missed
                case .named: found = .named
                case .known: found = found ?? .known
                }
            }
        }
        return found
    }

    private func next(at end: Int) -> Place {
        if matches("?", at: end) || matches("\":null", at: end) || matches("\": null", at: end) { return .missed }
        if matches("\":\"\"", at: end) || matches("\": \"\"", at: end) { return .missed }
        let value = end + body[end...].prefix { " \t\":='\\`(<[".utf8.contains($0) }.count
        let isKnown = ownIDs.contains { id in
            id.withBytes { id in
                let rest = body[value...]
                let next = value + id.count
                return rest.starts(with: id) && (next >= body.endIndex || !Self.isOfID(body[next]))
            }
        }
        return isKnown ? .known : .named
    }

    private func matches(_ word: StaticString, at start: Int) -> Bool {
        let word = UnsafeRawBufferPointer(start: word.utf8Start, count: word.utf8CodeUnitCount)
        guard start + word.count <= body.endIndex else { return false }
        return word.indices.allSatisfy { place in
            let byte = body[start + place]
            return (0x41...0x5a ~= byte ? byte + 0x20 : byte) == word[place]
        }
    }

    private static func isLetter(_ byte: UInt8) -> Bool { 0x61...0x7a ~= byte | 0x20 }
    private static func isOfID(_ byte: UInt8) -> Bool { isLetter(byte) || 0x30...0x39 ~= byte }
}

extension IdentitySettings.OAuth {
    /// Basic by `auto`: the server may want more.
    fileprivate var takesClientID: Bool {
        if case .basic = authentication { isAuthenticationAutomatic } else { false }
    }

    /// The form has no secret.
    fileprivate var takesEmptySecret: Bool {
        switch authentication {
        case .none, .basic, .basicWithID, .tls: true
        case .post, .privateKeyJWT, .assertion: false
        }
    }
}
