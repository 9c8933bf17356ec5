"""The same change of a database, by Cobweb and by an Ansible playbook as experts write them."""
