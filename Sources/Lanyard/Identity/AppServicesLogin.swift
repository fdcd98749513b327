/// A login request's provider and body (protocol §2.1), its secret read from its file at this moment.
struct AppServicesLogin: Sendable {
    /// The path segment of the provider.
    let provider: String
    let body: Secret
    /// A secret file that every user of the machine may read: worth a warning.
    let worldReadable: String?

    /// Reads the secret; the failure is `credentialUnavailable`, with the path and the remedy.
    static func prepare(
        _ login: UserSettings.Login, device: AppServicesDevice
    ) -> Result<AppServicesLogin, IdentityFault> {
        Result { () throws(IdentityFault) in try AppServicesLogin(login, device) }
    }

    private init(_ login: UserSettings.Login, _ device: AppServicesDevice) throws(IdentityFault) {
        var body = SecretBuffer(capacity: 1024)
        switch login {
        case .anonymous:
            provider = "anon-user"
            worldReadable = nil
            body.append("{")
        case .emailPassword(let email, let file):
            provider = "local-userpass"
            body.append("{\"username\":")
            JSONText.write(email, into: &body)
            body.append(",\"password\":")
            worldReadable = try Self.write(file, into: &body)
            body.append(",")
        case .apiKey(let file):
            provider = "api-key"
            body.append("{\"key\":")
            worldReadable = try Self.write(file, into: &body)
            body.append(",")
        }
        body.append("\"provider\":\"\(provider)\",\"options\":{\"device\":")
        device.write(into: &body)
        body.append("}}")
        self.body = body.seal()
    }

    /// Writes the secret as a JSON string; gives the path back if the file is readable by all.
    private static func write(_ path: String, into body: inout SecretBuffer) throws(IdentityFault) -> String? {
        do throws(SecretFile.Problem) {
            let content = try SecretFile.read(path)
            guard content.secret.withBytes({ JSONText.write($0, into: &body) }) else {
                throw .unfit("is not UTF-8 text")
            }
            return content.isWorldReadable ? path : nil
        } catch {
            throw IdentityFault(.credentialUnavailable, words: error.words(path: path))
        }
    }
}
