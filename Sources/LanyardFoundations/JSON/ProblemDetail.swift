/// The JSON of a problem detail (RFC 9457 §3): its members, their order and their escaping. Every listener writes its problems with it.
///
/// No value is trusted: a quote or a control byte in a name that an operator chose stays inside its string.
package struct ProblemDetail: Sendable {
    /// The media type of the document.
    package static let contentType = "application/problem+json"

    /// The last part of `type`.
    package var name: String
    /// The HTTP status of the response.
    package var status: Int
    /// The same words for each problem of a type.
    package var title: String
    /// What happened and how to correct it; also the member `message`.
    package var detail: String
    /// The request's id; nil: the listener gives its requests none.
    package var instance: String?
    /// The same request may succeed later.
    package var isRetryable: Bool
    /// The user that the problem concerns.
    package var user: String?
    /// Who must act; nil: the problem concerns no session and no call of an identity service.
    package var action: ResponsibleParty?
    /// What to do about an error of an identity service: a member of the admin API.
    package var remedy: String?
    /// What the identity service said, its code and its status: members of the admin API.
    package var serviceError: (message: String, code: String?, status: Int?)?

    package init(
        _ name: String, status: Int, title: String, detail: String, instance: String? = nil, isRetryable: Bool = false,
        user: String? = nil, action: ResponsibleParty? = nil,
        serviceError: (message: String, code: String?, status: Int?)? = nil
    ) {
        self.name = name
        self.status = status
        self.title = title
        self.detail = detail
        self.instance = instance
        self.isRetryable = isRetryable
        self.user = user
        self.action = action
        self.serviceError = serviceError
    }

    /// The whole document, in one allocation unless it is longer than most.
    package var json: JSONWriter {
        var json = JSONWriter(capacity: 288 + 2 * detail.utf8.count)
        write(into: &json)
        return json
    }

    /// Writes the document as a value.
    package func write(into json: inout JSONWriter) {
        json.beginObject()
        json.key("type")
        json.string("urn:lanyard:problem:" + name)
        json.key("status")
        json.number(status)
        json.key("title")
        json.string(title)
        json.key("detail")
        json.string(detail)
        // An extension member (RFC 9457 §3.2): SDKs of AI services show of a body only this one.
        json.key("message")
        json.string(detail)
        if let instance {
            json.key("instance")
            json.string(instance)
        }
        json.key("retryable")
        json.bool(isRetryable)
        if let user {
            json.key("user")
            json.string(user)
        }
        if let action {
            json.key("action")
            json.string(action.rawValue)
        }
        if let remedy {
            json.key("remedy")
            json.string(remedy)
        }
        if let serviceError {
            if let status = serviceError.status {
                json.key("identity_status")
                json.number(status)
            }
            json.key("error")
            json.string(serviceError.message)
            if let code = serviceError.code {
                json.key("error_code")
                json.string(code)
            }
        }
        json.endObject()
    }
}
