/// `…/auth/api_keys`: a user's own keys. All calls demand the refresh token.
extension ServiceState {
    static let userKeysMax = 20

    func createKey(_ authorization: String?, _ body: JSONValue) throws(ServiceError) -> JSONValue {
        let (session, app) = try keyOwner(authorization)
        guard let name = body["name"]?.string, !name.isEmpty else { throw .keyNameMissing }
        let isAllowed = name.utf8.allSatisfy { byte in
            let character = Character(Unicode.Scalar(byte))
            return character.isASCII && (character.isLetter || character.isNumber) || byte == 0x2D || byte == 0x5F
        }
        guard isAllowed else { throw .keyName }
        let own = userKeys(of: session.userID, app)
        guard !own.contains(where: { $0.name == name }) else { throw .keyNameInUse }
        guard own.count < Self.userKeysMax else { throw .keyLimit }
        let key = APIKey(
            id: Identifiers.new(), name: name, key: Identifiers.key(), userID: session.userID, isServerKey: false)
        apps[app].accounts.keys.append(key)
        return key.json(withKey: true)
    }

    func listKeys(_ authorization: String?) throws(ServiceError) -> JSONValue {
        let (session, app) = try keyOwner(authorization)
        return .array(userKeys(of: session.userID, app).map { $0.json() })
    }

    func key(_ id: String, _ authorization: String?) throws(ServiceError) -> JSONValue {
        let (session, app) = try keyOwner(authorization)
        return apps[app].accounts.keys[try index(ofKey: id, of: session, app)].json()
    }

    func deleteKey(_ id: String, _ authorization: String?) throws(ServiceError) {
        let (session, app) = try keyOwner(authorization)
        let index = try index(ofKey: id, of: session, app)
        if session.identity.provider == .apiKey, session.identity.id == id { throw .keyOfSession }
        apps[app].accounts.keys.remove(at: index)
    }

    func setKeyDisabled(_ isDisabled: Bool, _ id: String, _ authorization: String?) throws(ServiceError) {
        let (session, app) = try keyOwner(authorization)
        let index = try index(ofKey: id, of: session, app)
        apps[app].accounts.keys[index].isDisabled = isDisabled
    }

    /// The session of a user who may have keys, and its app.
    private func keyOwner(_ authorization: String?) throws(ServiceError) -> (EmulatorSession, app: Int) {
        let session = try refreshSession(authorization)
        guard let app = index(ofApp: session.appID), let user = apps[app].accounts.users[session.userID] else {
            throw .refreshUnknown
        }
        _ = try enabledProvider(Provider.apiKey.rawValue, app)
        guard !user.isAnonymous else { throw .keysOfAnonymous }
        return (session, app)
    }

    private func userKeys(of userID: String, _ app: Int) -> [APIKey] {
        apps[app].accounts.keys.filter { owner(of: $0, app) == userID && !$0.isServerKey }
    }

    /// The owner of a configured key is known by the email alone until the key logs in.
    func owner(of key: APIKey, _ app: Int) -> String? {
        key.userID ?? key.email.flatMap { emailAccount($0, app)?.userID }
    }

    private func index(ofKey id: String, of session: EmulatorSession, _ app: Int) throws(ServiceError) -> Int {
        guard let index = apps[app].accounts.key(withID: id) else { throw .keyNotFound }
        let key = apps[app].accounts.keys[index]
        guard !key.isServerKey, owner(of: key, app) == session.userID else { throw .keyNotFound }
        return index
    }
}
