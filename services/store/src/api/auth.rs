//! Auth: off for good, since certificates decide who may call. There are no users and no roles, and none can be made.
use tonic::{Request, Response, Status};
use trireme_proto::etcdserverpb as pb;
use trireme_proto::etcdserverpb::auth_server::Auth;

use super::Api;

fn precondition(message: &str) -> Status {
    Status::failed_precondition(format!("etcdserver: {message}"))
}

fn no_user() -> Status {
    precondition("user name not found")
}

fn no_role() -> Status {
    precondition("role name not found")
}

fn fixed() -> Status {
    Status::unimplemented("etcdserver: this store has no users: certificates decide who may call")
}

#[tonic::async_trait]
impl Auth for Api {
    async fn auth_enable(&self, _: Request<pb::AuthEnableRequest>) -> Result<Response<pb::AuthEnableResponse>, Status> {
        Err(precondition("root user does not exist"))
    }

    async fn auth_disable(
        &self,
        _: Request<pb::AuthDisableRequest>,
    ) -> Result<Response<pb::AuthDisableResponse>, Status> {
        Ok(Response::new(pb::AuthDisableResponse { header: self.header_now() }))
    }

    async fn auth_status(&self, _: Request<pb::AuthStatusRequest>) -> Result<Response<pb::AuthStatusResponse>, Status> {
        Ok(Response::new(pb::AuthStatusResponse { header: self.header_now(), enabled: false, auth_revision: 1 }))
    }

    async fn authenticate(
        &self,
        _: Request<pb::AuthenticateRequest>,
    ) -> Result<Response<pb::AuthenticateResponse>, Status> {
        Err(precondition("authentication is not enabled"))
    }

    async fn user_add(
        &self,
        request: Request<pb::AuthUserAddRequest>,
    ) -> Result<Response<pb::AuthUserAddResponse>, Status> {
        if request.into_inner().name.is_empty() {
            return Err(Status::invalid_argument("etcdserver: user name is empty"));
        }
        Err(fixed())
    }

    async fn user_get(&self, _: Request<pb::AuthUserGetRequest>) -> Result<Response<pb::AuthUserGetResponse>, Status> {
        Err(no_user())
    }

    async fn user_list(
        &self,
        _: Request<pb::AuthUserListRequest>,
    ) -> Result<Response<pb::AuthUserListResponse>, Status> {
        Ok(Response::new(pb::AuthUserListResponse { header: self.header_now(), users: Vec::new() }))
    }

    async fn user_delete(
        &self,
        _: Request<pb::AuthUserDeleteRequest>,
    ) -> Result<Response<pb::AuthUserDeleteResponse>, Status> {
        Err(no_user())
    }

    async fn user_change_password(
        &self,
        _: Request<pb::AuthUserChangePasswordRequest>,
    ) -> Result<Response<pb::AuthUserChangePasswordResponse>, Status> {
        Err(no_user())
    }

    async fn user_grant_role(
        &self,
        _: Request<pb::AuthUserGrantRoleRequest>,
    ) -> Result<Response<pb::AuthUserGrantRoleResponse>, Status> {
        Err(no_user())
    }

    async fn user_revoke_role(
        &self,
        _: Request<pb::AuthUserRevokeRoleRequest>,
    ) -> Result<Response<pb::AuthUserRevokeRoleResponse>, Status> {
        Err(no_user())
    }

    async fn role_add(
        &self,
        request: Request<pb::AuthRoleAddRequest>,
    ) -> Result<Response<pb::AuthRoleAddResponse>, Status> {
        if request.into_inner().name.is_empty() {
            return Err(Status::invalid_argument("etcdserver: role name is empty"));
        }
        Err(fixed())
    }

    async fn role_get(&self, _: Request<pb::AuthRoleGetRequest>) -> Result<Response<pb::AuthRoleGetResponse>, Status> {
        Err(no_role())
    }

    async fn role_list(
        &self,
        _: Request<pb::AuthRoleListRequest>,
    ) -> Result<Response<pb::AuthRoleListResponse>, Status> {
        Ok(Response::new(pb::AuthRoleListResponse { header: self.header_now(), roles: Vec::new() }))
    }

    async fn role_delete(
        &self,
        _: Request<pb::AuthRoleDeleteRequest>,
    ) -> Result<Response<pb::AuthRoleDeleteResponse>, Status> {
        Err(no_role())
    }
}
