//! Static bearer tokens: `--token-auth-file`, lines of `token,user,uid,"group1,group2"`.

use std::collections::HashMap;
use std::path::Path;

use super::user::UserInfo;

/// The tokens of a file, read once at start.
#[derive(Default)]
pub struct TokenFile {
    users: HashMap<String, UserInfo>,
}

impl TokenFile {
    /// Reads the file.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("token file {}: {e}", path.display()))?;
        Self::parse(&text).map_err(|e| format!("token file {}: {e}", path.display()))
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut users = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let fields = split_csv(line);
            let [token, name, uid, rest @ ..] = fields.as_slice() else {
                return Err(format!("line {} has {} columns of at least 3", number + 1, fields.len()));
            };
            if token.is_empty() {
                return Err(format!("line {} has an empty token", number + 1));
            }
            let groups = rest.first().map(|list| list.split(',').map(str::trim).filter(|g| !g.is_empty()));
            let groups = groups.map(|list| list.map(str::to_owned).collect()).unwrap_or_default();
            users.insert(
                token.clone(),
                UserInfo { name: name.clone(), uid: uid.clone(), groups, ..UserInfo::default() },
            );
        }
        Ok(Self { users })
    }

    /// The user of a token.
    #[must_use]
    pub fn user(&self, token: &str) -> Option<UserInfo> {
        self.users.get(token).cloned()
    }
}

/// One line of RFC 4180 without line breaks inside fields.
fn split_csv(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut inside) = (Vec::new(), String::new(), false);
    let mut chars = line.trim_end_matches('\r').chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if inside && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => inside = !inside,
            ',' if !inside => fields.push(std::mem::take(&mut field).trim().to_owned()),
            c => field.push(c),
        }
    }
    fields.push(field.trim().to_owned());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_users_and_groups() {
        let file = TokenFile::parse("t1,admin,1,\"system:masters,ops\"\n\n# note\nt2,bob,2\n").unwrap();
        let admin = file.user("t1").unwrap();
        assert_eq!((admin.name.as_str(), admin.uid.as_str()), ("admin", "1"));
        assert_eq!(admin.groups, ["system:masters", "ops"]);
        assert!(file.user("t2").unwrap().groups.is_empty());
        assert!(file.user("t3").is_none());
        assert!(TokenFile::parse("a,b").is_err());
    }
}
