import LanyardFoundations
import LanyardRequestPath

/// The paths of Google Compute Engine's metadata server that clients of tokens ask for, such as google-auth.
enum MetadataPath {
    /// A text that is the same for each caller.
    case text(StaticString)
    /// Of an account: `default`, or a user's email address.
    case account(name: String, Part)

    enum Part { case folder, token, email, scopes, aliases }

    private static let accounts = "/computeMetadata/v1/instance/service-accounts/"

    /// nil: nothing is there. An ID token (`identity`) is a credential, and is not handed out.
    init?(_ path: Bytes) {
        let text = String(decoding: path, as: UTF8.self)
        switch text {
        case "/": self = .text("computeMetadata/\n")
        case "/computeMetadata/v1", "/computeMetadata/v1/": self = .text("instance/\nproject/\n")
        case "/computeMetadata/v1/project/project-id": self = .text("lanyard")
        case "/computeMetadata/v1/instance/service-accounts", Self.accounts: self = .text("default/\n")
        default:
            guard text.hasPrefix(Self.accounts) else { return nil }
            let names = text.dropFirst(Self.accounts.count).split(separator: "/", omittingEmptySubsequences: false)
            guard let name = names.first, !name.isEmpty, names.count <= 2 else { return nil }
            switch names.dropFirst().first {
            case nil, "": self = .account(name: String(name), .folder)
            case "token": self = .account(name: String(name), .token)
            case "email": self = .account(name: String(name), .email)
            case "scopes": self = .account(name: String(name), .scopes)
            case "aliases": self = .account(name: String(name), .aliases)
            default: return nil
            }
        }
    }

    /// nil: the request is not one that a web page, or a proxy that forwards what it gets, could have sent.
    static func refusal(of request: GrantRequest) -> Problem? {
        let flavors = request.values(of: "metadata-flavor")
        guard flavors.count == 1, flavors[0].equals(lowered: "google") else {
            return .metadataNotAllowed("Requests for metadata carry Metadata-Flavor: Google.")
        }
        guard request.values(of: "x-forwarded-for").isEmpty else {
            return .metadataNotAllowed("Requests for metadata that were forwarded (X-Forwarded-For) are refused.")
        }
        return nil
    }

    /// The users' addresses: `alice@lanyard.local`.
    private static let domain = "@lanyard.local"

    static func email(of user: String) -> String { user + domain }

    /// The user of an address; another text stands for no user.
    ///
    /// - Parameter text: as it is in the path, where some clients escape the `@`.
    static func user(ofEmail text: String) -> String {
        let text = text.replacing("%40", with: "@")
        return text.hasSuffix(domain) ? String(text.dropLast(domain.count)) : text
    }

    /// `?recursive=true` asks for all of a folder as JSON.
    static func isRecursive(_ query: Bytes) -> Bool {
        query.split(separator: UInt8(ascii: "&")).contains { Bytes(rebasing: $0).equals(lowered: "recursive=true") }
    }

    static func response(_ text: some StringProtocol) -> GrantResponse { response("application/text", String(text)) }

    static func response(_ text: StaticString) -> GrantResponse { response("application/text", "\(text)") }

    static func response(_ type: StaticString, _ text: String) -> GrantResponse {
        let body = Array(text.utf8).withUnsafeBytes { Secret(copying: $0) }
        return GrantResponse(200, type, body, fields: [("Metadata-Flavor", "Google")])
    }
}

extension MetadataPath.Part {
    /// The response, which has no token.
    func response(user: String, scopes: [String], isRecursive: Bool) -> GrantResponse {
        let email = MetadataPath.email(of: user)
        switch self {
        case .folder where isRecursive:
            var json = JSONWriter(capacity: 256)
            json.beginObject()
            json.key("aliases")
            json.beginArray()
            json.string("default")
            json.endArray()
            json.key("email")
            json.string(email)
            json.key("scopes")
            json.beginArray()
            for scope in scopes { json.string(scope) }
            json.endArray()
            json.endObject()
            return MetadataPath.response("application/json", String(decoding: json.bytes, as: UTF8.self))
        case .folder: return MetadataPath.response("aliases\nemail\nscopes\ntoken\n")
        case .email: return MetadataPath.response(email)
        case .scopes: return MetadataPath.response(scopes.map { $0 + "\n" }.joined())
        case .aliases, .token: return MetadataPath.response("default\n")
        }
    }
}
