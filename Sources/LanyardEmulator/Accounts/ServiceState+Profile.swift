/// A user's own account: profile, deletion, push registrations.
extension ServiceState {
    /// `GET …/auth/profile`.
    func profile(_ userID: String) throws(ServiceError) -> JSONValue {
        guard let app = index(ofUser: userID), let user = user(userID) else { throw .refreshUnknown }
        let settings = apps[app].settings
        return .members([
            "user_id": .string(userID), "domain_id": .string(settings.domainID),
            "identities": .array(user.identities.map { $0.json(appID: settings.appID) }),
            "data": .object(user.profileData), "type": .string(user.type),
        ])
    }

    /// `DELETE …/auth/delete`.
    func deleteAccount(_ authorization: String?, _ call: Int?) throws(ServiceError) -> String {
        let token = try access(authorization)
        guard user(token.userID) != nil else { throw .refreshUnknown }
        updateJournal(call) {
            $0.account = name(of: token.userID) ?? token.userID
            $0.sessionID = token.sessionID
            $0.effect = .accountDeleted
        }
        deleteUser(token.userID)
        return token.userID
    }

    /// `PUT` and `DELETE …/push/providers/<service>/registration`.
    ///
    /// - Parameter token: nil ends the registration.
    func registerPush(
        _ app: Int, _ service: String, _ authorization: String?, token: String?
    ) throws(ServiceError) -> String {
        let userID = try access(authorization, app).userID
        guard apps[app].settings.pushServices.contains(service) else { throw .serviceNotFound(service) }
        apps[app].accounts.pushRegistrations.removeAll { $0.service == service && $0.userID == userID }
        if let token {
            let registration = PushRegistration(service: service, userID: userID, token: token)
            apps[app].accounts.pushRegistrations.append(registration)
        }
        return userID
    }
}
